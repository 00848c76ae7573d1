"""Catalogs in a database: SQLite on one machine, PostgreSQL for several.

The library asks its database without a limit in time.  So connections of PostgreSQL are of a class of ours: a server
that hangs, or that waits for the lock of another client, is one that does not answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO
from pyiceberg.typedef import EMPTY_DICT, Properties
from sqlalchemy import Engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from fairlead_ingest import errors
from fairlead_ingest.io.table.iceberg import file_io
from fairlead_ingest.io.table.iceberg.catalogs import secret_file
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.store_path import Storage

CONNECT_SECONDS: Final = 5
STATEMENT_SECONDS: Final = 30.0
PROGRAM: Final = "fairlead ingest"
_DURABLE: Final = (
    "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'"
)


class _Sql(SqlCatalog):
    def __init__(self, catalog: Catalog, storage: Storage) -> None:
        self._settings = catalog
        # The password is in none of the properties, which the library hands on to each table.
        super().__init__(catalog.name, uri=catalog.uri, pool_pre_ping="true", **file_io.properties(storage))

    def _init_catalog(self) -> None:
        """Where the library asks its first question."""
        _prepare(self.engine, self._settings)
        super()._init_catalog()

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        return file_io.of_table(self.properties, properties)


def is_missing(uri: str) -> bool:
    """Is it a file of SQLite, in a folder that is there, and not there itself?"""
    try:
        url = make_url(uri)
    except (ArgumentError, ValueError):
        return False  # which ``connect`` says in a sentence
    file = url.database or ""
    if url.get_backend_name() != "sqlite" or not file or file.startswith((":", "file:")):
        return False
    return Path(file).parent.is_dir() and not Path(file).exists()


def connect(catalog: Catalog, storage: Storage) -> SqlCatalog:
    """Raises ``Stop`` and what ``failures`` explains."""
    try:
        make_url(catalog.uri)
    except (ArgumentError, ValueError) as error:
        raise errors.Stop(
            errors.BAD_OPTION, f"[catalog] uri {catalog.uri}: no address of a database: {error}"
        ) from None
    return _Sql(catalog, storage)


def _prepare(engine: Engine, catalog: Catalog) -> None:
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _durable_sqlite)
        return
    make = _postgresql if (engine.dialect.name, engine.driver) == ("postgresql", "psycopg") else None

    def connected(_: Any, __: Any, words: list[Any], named: dict[str, Any]) -> Any:
        password = secret_file.read("password_file", catalog.password_file)
        if password is not None:
            named["password"] = password
        return None if make is None else make(*words, **named)

    event.listen(engine, "do_connect", connected)


def _postgresql(*words: Any, **named: Any) -> Any:
    import psycopg
    from psycopg.errors import _WaitTimeout

    class Bounded(psycopg.Connection[Any]):
        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            try:
                return super().wait(gen, interval, STATEMENT_SECONDS if timeout is None else timeout)
            except _WaitTimeout:
                self.pgconn.finish()
                raise psycopg.OperationalError(f"no answer within {STATEMENT_SECONDS:g} s") from None

    found = Bounded.connect(*words, **{"connect_timeout": CONNECT_SECONDS, "application_name": PROGRAM, **named})
    # Outside of a transaction, whose end would take it back. What a server has said to be in must be in after a crash.
    found.autocommit = True
    found.execute(_DURABLE)
    found.autocommit = False
    return found


def _durable_sqlite(connection: Any, _: Any) -> None:
    """SQLite's default already, but for builds that say otherwise; and two jobs wait for each other."""
    connection.execute("pragma synchronous = full")
    connection.execute(f"pragma busy_timeout = {CONNECT_SECONDS * 1000}")
