"""A real Prometheus on loopback that scrapes the given targets and answers queries.

with Prometheus(folder, {"fairlead-hub": port}) as prometheus:
    prometheus.ask("sum(up)")
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import yaml
from tests.support.processes import Running, free_ports, start, wait_until
from tests.support.tools import tool

SCRAPE_SECONDS = 1
READY_SECONDS = 120.0


class BadQueryError(Exception):
    """Prometheus rejected the query; the text has the reason and the position."""


class Prometheus:
    """`targets`: job name to port."""

    def __init__(self, folder: Path, targets: Mapping[str, int], labels: Mapping[str, Mapping[str, str]] = {}) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (self._port,) = free_ports(1)
        self._targets = targets
        jobs = [
            {
                "job_name": job,
                "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": dict(labels.get(job, {}))}],
            }
            for job, port in targets.items()
        ]
        interval = f"{SCRAPE_SECONDS}s"
        config = {
            "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
            "scrape_configs": jobs,
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.running: Running | None = None

    def __enter__(self) -> Self:
        command = [
            str(tool("prometheus")), f"--config.file={self._folder}/prometheus.yml",
            f"--storage.tsdb.path={self._folder}/data", f"--web.listen-address=127.0.0.1:{self._port}",
            "--log.level=warn",
        ]  # fmt: skip
        running = self.running = start("prometheus", command, self._folder / "prometheus.log")

        def up() -> bool:
            running.require_alive()
            try:
                return len(self.ask("up == 1")) == len(self._targets)
            except OSError:
                return False

        try:
            wait_until("Prometheus scrapes every target", up, seconds=READY_SECONDS, describe=running.tail)
        except BaseException:
            running.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.running is not None:
            self.running.kill()

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The series of an instant query.  Raises ``BadQueryError``."""
        url = f"http://127.0.0.1:{self._port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(url, timeout=60) as answer:
                found: list[dict[str, Any]] = json.loads(answer.read())["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                raise OSError("not ready") from None
            raise BadQueryError(json.loads(error.read())["error"]) from None
        return found
