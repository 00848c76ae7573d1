"""An object store (S3) of this machine's that Pods reach over https, with a certificate of a private authority."""

from __future__ import annotations

import base64
import http.client
import json
import os
import secrets
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Self

from deltalake import DeltaTable
from tests.support.joining.pki import Authority
from tests.support.processes import Running, free_ports, start, wait_until

BUCKET: Final = "tables"
KEY_ID: Final = "fairlead"
REGION: Final = "us-east-1"
READY_SECONDS: Final = 60.0
READ: Final = """
import json, sys
import polars
print(json.dumps(polars.scan_delta(sys.argv[1]).select("id").collect()["id"].to_list()))
"""
READ_SECONDS: Final = 120


class Store:
    """`program` over a folder, on one address of this machine; `kill` it as you like."""

    def __init__(self, program: Path, folder: Path, host: str) -> None:
        (folder / "content" / BUCKET).mkdir(parents=True)
        self._program = program
        self._folder = folder
        self._host = host
        (self._port,) = free_ports(1)
        authority = Authority(folder, "object store authority")
        self._served = authority.issue("store", hosts=(host,))
        self.authority = authority.certificate
        self.secret = secrets.token_urlsafe(24)
        self.url = f"https://{host}:{self._port}"
        self._running: Running | None = None

    def __enter__(self) -> Self:
        command = [
            str(self._program), "--port", f"{self._host}:{self._port}", "--cert", str(self._served.certificate),
            "--key", str(self._served.key), "--region", REGION, "--quiet", "posix", str(self._folder / "content"),
        ]  # fmt: skip
        environ = {"ROOT_ACCESS_KEY": KEY_ID, "ROOT_SECRET_KEY": self.secret}
        running = self._running = start("object-store", command, self._folder / "store.log", environ=environ)
        trust = ssl.create_default_context(cafile=str(self.authority))

        def up() -> bool:
            running.require_alive()
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=5, context=trust)
            try:
                connection.request("GET", "/")
                return connection.getresponse().status > 0
            finally:
                connection.close()

        wait_until("the object store answers", up, seconds=READY_SECONDS, describe=running.tail)
        return self

    def __exit__(self, *_: object) -> None:
        if self._running is not None:
            self._running.kill()

    def as_secrets(self, namespace: str) -> list[dict[str, Any]]:
        """What a user makes: one Secret with the key, one with the authority's certificate."""
        key = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": self.secret}
        meta = {"apiVersion": "v1", "kind": "Secret"}
        return [
            {**meta, "metadata": {"name": "store-key", "namespace": namespace}, "stringData": key},
            {
                **meta,
                "metadata": {"name": "store-authority", "namespace": namespace},
                "data": {"ca.crt": base64.b64encode(self.authority.read_bytes()).decode()},
            },
        ]

    def count(self, table: str) -> int:
        """Rows of a table, in no time: the store's content is a folder of this machine. 0 before there is one."""
        folder = self._folder_of(table)
        if not DeltaTable.is_deltatable(folder):
            return 0
        return int(DeltaTable(folder).to_pyarrow_dataset().count_rows())

    def files(self, table: str) -> int:
        """Files of its newest version."""
        return len(DeltaTable(self._folder_of(table)).file_uris())

    def _folder_of(self, table: str) -> str:
        return str(self._folder / "content" / table.removeprefix("s3://"))

    def ids(self, table: str) -> list[str]:
        """Column `id` of a table, read by polars in a process of its own: whom it believes is fixed at its start."""
        environ = {
            **os.environ, "AWS_ENDPOINT_URL": self.url, "AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": self.secret, "SSL_CERT_FILE": str(self.authority), "NO_PROXY": "*",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", READ, table], env=environ, capture_output=True, text=True, timeout=READ_SECONDS
        )
        assert done.returncode == 0, done.stderr[-1500:]
        found: list[str] = json.loads(done.stdout)
        return found
