"""Apache Iceberg's own REST catalog on loopback, over a database in SQLite: started, killed, started again.

with RestCatalog(folder) as catalog:
    table_format = tables.of("iceberg", catalog.catalog())
"""

from __future__ import annotations

import functools
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final, Self

import pyspark
from tests.support.processes import Running, free_ports, start, wait_until
from tests.support.tools import fetched, tool

from fairlead_ingest.table.catalog import Catalog

READY_SECONDS: Final = 120.0
BUILDER: Final = Path(__file__).resolve().parents[3] / "e2e" / "rest_catalog" / "build.py"
HADOOP: Final = Path(pyspark.__file__).parent / "jars"
# A small heap that starts fast: what is asked of it is little.
JAVA: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@functools.cache
def built() -> Path:
    """Its folder. Takes a minute the first time, then milliseconds. Skips the test if it is not available."""
    for name in ("mvn", "javac"):
        tool(name)
    return fetched(BUILDER, "rest-catalog", str(HADOOP))


class RestCatalog:
    """``folder`` holds its database."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self._running: Running | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it; it is ready when this returns."""
        hadoop = ":".join(map(str, sorted(HADOOP.glob("hadoop-client-*.jar"))))
        command = [
            "java", *JAVA, "-cp", f"{built()}/classes:{built()}/jars/*:{hadoop}", "Server", str(self.port),
            "catalog-impl=org.apache.iceberg.jdbc.JdbcCatalog", f"uri=jdbc:sqlite:{self.folder}/rest.db",
            f"warehouse=file://{self.folder}/warehouse", "io-impl=org.apache.iceberg.io.ResolvingFileIO",
        ]  # fmt: skip
        running = self._running = start("rest-catalog", command, self.folder / "catalog.log")

        def up() -> bool:
            running.require_alive()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/config", timeout=60) as answer:
                    return bool(answer.status == 200)
            except urllib.error.URLError:
                return False

        wait_until("the catalog answers", up, seconds=READY_SECONDS, describe=running.tail)

    def kill(self) -> None:
        """Kill it with -9."""
        if self._running is not None:
            self._running.kill()
            self._running = None

    def catalog(self, url: str | None = None) -> Catalog:
        """The settings of this catalog; ``url``: the address of a proxy."""
        return Catalog(type="rest", uri=url or f"http://127.0.0.1:{self.port}")
