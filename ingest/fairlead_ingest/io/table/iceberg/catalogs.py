"""Opens a catalog from the settings: a SQL database, or a service with Iceberg's REST API.

    connect ─▶ connect_sql, connect_rest ─▶ secret_file        all ─▶ catalog_failures

pyiceberg would also read ``~/.pyiceberg.yaml`` and ``PYICEBERG_…``; they are ignored, so that a job behaves the same
wherever it runs. How files are read and written also depends only on the job's settings: neither a catalog's answer nor
a property of a table, which other writers may set, can change it.

REST, with a token or OAuth2 (client credentials): the library requests a new token when the service refuses the old
one, and repeats the request once. By default it would also wait forever for an answer, adopt properties of the service,
and follow redirects with its credentials; all of that is disabled here.

SQL, with SQLite on one machine or PostgreSQL for several: the library queries its database without a time limit. So
PostgreSQL connections use our own class, which treats a server that hangs, or waits for another client's lock, as one
that does not answer. Passwords are read when a connection is opened.
"""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import requests
from pyiceberg import exceptions
from pyiceberg.catalog import Catalog as Opened
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO
from pyiceberg.typedef import EMPTY_DICT, Properties
from requests.adapters import HTTPAdapter
from sqlalchemy import Engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from fairlead_ingest import errors
from fairlead_ingest.io.table.iceberg import file_io
from fairlead_ingest.io.table.iceberg.catalog_failures import FAILURES as FAILURES
from fairlead_ingest.io.table.iceberg.catalog_failures import explain as explain
from fairlead_ingest.io.table.iceberg.secret_file import read_secret
from fairlead_ingest.table import catalog as names
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.store_path import Storage

REST_CONNECT_SECONDS: Final = 5
REQUEST_SECONDS: Final = 30
_TOKENS: Final = "v1/oauth/tokens"
_CHOSEN_BY_THE_SERVICE: Final = frozenset({"prefix", "namespace-separator", "rest-page-size", "uri"})
"""Properties accepted from the service; all others concern the reading of files, or are not needed."""


class _Http(HTTPAdapter):
    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        options["timeout"] = (REST_CONNECT_SECONDS, REQUEST_SECONDS)
        answer = super().send(request, *args, **options)
        if answer.status_code == HTTPStatus.NOT_IMPLEMENTED:
            raise exceptions.BadRequestError(f"{request.method} {request.path_url}: not implemented (501)")
        return answer


class _Rest(RestCatalog):
    def __init__(self, catalog: Catalog, storage: Storage) -> None:
        self._own = {**_properties(catalog), **file_io.properties(storage)}
        super().__init__(catalog.name, **self._own)

    def _config_headers(self, session: requests.Session) -> None:
        """Set up the session; called before it requests a token."""
        super()._config_headers(session)
        session.trust_env = False
        session.max_redirects = 0
        for scheme in ("https://", "http://"):
            session.mount(scheme, _Http())

    def _fetch_config(self) -> None:
        super()._fetch_config()
        said = {key: value for key, value in self.properties.items() if key in _CHOSEN_BY_THE_SERVICE}
        self.properties = {**self._own, **said}
        try:
            names.check_uri("rest", self.uri)
        except ValueError as error:
            own = self._own["uri"]
            raise errors.Stop(errors.CATALOG_UNFIT, f"[catalog] {own}: the uri it returns {error}") from None

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        return file_io.of_table(self.properties, properties)


def connect_rest(catalog: Catalog, storage: Storage) -> RestCatalog:
    """Open a REST catalog. Raises ``Stop`` and the ``FAILURES`` that ``explain`` takes."""
    return _Rest(catalog, storage)


def _properties(catalog: Catalog) -> dict[str, Any]:
    found: dict[str, Any] = {
        "uri": catalog.uri,
        "warehouse": catalog.warehouse,
        "token": read_secret("token_file", catalog.token_file),
        "credential": read_secret("credential_file", catalog.credential_file),
        "oauth2-server-uri": catalog.oauth2_uri or f"{catalog.uri.rstrip('/')}/{_TOKENS}",
        "scope": catalog.oauth2_scope,
        "ssl": None if catalog.tls_ca is None else {"cabundle": catalog.tls_ca},
        # Tasks write with the job's own credentials; those vended by a catalog would expire within the hour.
        "header.X-Iceberg-Access-Delegation": "",
    }
    return {key: value for key, value in found.items() if value is not None}


CONNECT_SECONDS: Final = 5
STATEMENT_SECONDS: Final = 30.0
PROGRAM: Final = "fairlead ingest"
_DURABLE: Final = (
    "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'"
)


class _Sql(SqlCatalog):
    def __init__(self, catalog: Catalog, storage: Storage) -> None:
        self._settings = catalog
        # The password is not a property, because the library passes these to each table.
        super().__init__(catalog.name, uri=catalog.uri, pool_pre_ping="true", **file_io.properties(storage))

    def _init_catalog(self) -> None:
        """Set up the engine before the library's first query."""
        _prepare(self.engine, self._settings)
        super()._init_catalog()

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        return file_io.of_table(self.properties, properties)


def is_sqlite_missing(uri: str) -> bool:
    """Whether the URI names an SQLite file that does not exist, in an existing folder."""
    try:
        url = make_url(uri)
    except (ArgumentError, ValueError):
        return False  # ``connect`` reports the error
    file = url.database or ""
    if url.get_backend_name() != "sqlite" or not file or file.startswith((":", "file:")):
        return False
    return Path(file).parent.is_dir() and not Path(file).exists()


def connect_sql(catalog: Catalog, storage: Storage) -> SqlCatalog:
    """Open a SQL catalog. Raises ``Stop`` and the ``FAILURES`` that ``explain`` takes."""
    try:
        make_url(catalog.uri)
    except (ArgumentError, ValueError) as error:
        raise errors.Stop(errors.BAD_OPTION, f"[catalog] uri {catalog.uri}: not a database URL: {error}") from None
    return _Sql(catalog, storage)


def _prepare(engine: Engine, catalog: Catalog) -> None:
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _durable_sqlite)
        return
    make = _postgresql if (engine.dialect.name, engine.driver) == ("postgresql", "psycopg") else None

    def connected(_: Any, __: Any, words: list[Any], named: dict[str, Any]) -> Any:
        password = read_secret("password_file", catalog.password_file)
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
    # A commit that the server has confirmed must survive a crash. Set outside a transaction, or a rollback undoes it.
    found.autocommit = True
    found.execute(_DURABLE)
    found.autocommit = False
    return found


def _durable_sqlite(connection: Any, _: Any) -> None:
    """Make commits durable, also in builds with another default, and let two jobs wait for each other."""
    connection.execute("pragma synchronous = full")
    connection.execute(f"pragma busy_timeout = {CONNECT_SECONDS * 1000}")


def is_missing(catalog: Catalog) -> bool:
    """Whether the catalog is an SQLite file that does not exist. Connecting creates it, so only writers may connect."""
    return catalog.type == "sql" and is_sqlite_missing(catalog.uri)


def connect(catalog: Catalog, storage: Storage) -> Opened:
    """Open the catalog. Raises ``Stop``, ``Wait``."""
    try:
        return connect_sql(catalog, storage) if catalog.type == "sql" else connect_rest(catalog, storage)
    except FAILURES as error:
        raise explain(catalog, error) from error
