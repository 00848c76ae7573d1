"""A real object store (S3) on loopback, over a folder: started, killed, started again.

with ObjectStore(folder) as store:
    table = store.place("rows")
"""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Final, Self

from tests.support.kube.assets import assets
from tests.support.processes import Running, free_ports, start, wait_until

from fairlead_ingest.table.store_path import Storage, StorePath, parse

READY_SECONDS: Final = 60.0
BUCKET: Final = "tables"
ACCESS_KEY: Final = "fairlead"
SECRET: Final = "not-a-secret-of-anybody"
REGION: Final = "us-east-1"


class ObjectStore:
    """`folder` must be on a file system with extended attributes; it is the store's whole content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.content = folder / "content" / BUCKET
        """Of the bucket, as files."""
        self.content.mkdir(parents=True)
        self.secret = folder / "secret"
        self.secret.write_text(SECRET + "\n")
        """Of the key; taken by the store when it starts."""
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self.running: Running | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it; it is ready when this returns."""
        command = [
            str(assets("versitygw") / "versitygw"), "--port", f"127.0.0.1:{self.port}", "--region", REGION, "--quiet",
            "posix", str(self.content.parent),
        ]  # fmt: skip
        environ = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": self.secret.read_text().strip()}
        running = self.running = start("object-store", command, self.folder / "store.log", environ=environ)

        def up() -> bool:
            running.require_alive()
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            try:
                connection.request("GET", "/")
                return connection.getresponse().status > 0
            finally:
                connection.close()

        wait_until("the object store answers", up, seconds=READY_SECONDS, describe=running.tail)

    def kill(self) -> None:
        """Kill it with -9."""
        if self.running is not None:
            self.running.kill()
            self.running = None

    @property
    def storage(self) -> Storage:
        return Storage(
            endpoint_url=self.url, region=REGION, access_key_id=ACCESS_KEY, secret_access_key_file=str(self.secret)
        )

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the table `[storage]`."""
        found = {name: getattr(self.storage, name) for name in self.storage.__struct_fields__}
        return {name: value for name, value in found.items() if value is not None}

    def place(self, path: str, *, bucket: str = BUCKET) -> StorePath:
        return parse(f"s3://{bucket}/{path}", self.storage)

    def objects(self) -> list[Path]:
        """The files of the bucket, relative to it."""
        return sorted(path.relative_to(self.content) for path in self.content.rglob("*") if path.is_file())
