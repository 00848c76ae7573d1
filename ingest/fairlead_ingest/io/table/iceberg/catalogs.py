"""A catalog opened as the settings say, and its errors in sentences of ours.

pyiceberg would also take what it finds in ``~/.pyiceberg.yaml`` and ``PYICEBERG_…``; a job does what its own settings
say, wherever it runs, so those are not read.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Any, Final

import msgspec
import pydantic
import requests
from pyiceberg import exceptions
from pyiceberg.catalog import Catalog as Opened
from pyiceberg.catalog.rest import RestCatalog
from requests.adapters import HTTPAdapter
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError, SQLAlchemyError

from fairlead_ingest import errors
from fairlead_ingest.io.table.iceberg import file_io
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.store_path import Storage

CONNECT_SECONDS: Final = 5
REQUEST_SECONDS: Final = 30
"""pyiceberg waits for ever by itself."""
SECRET_CHARS_MAX: Final = 16 * 1024
SENTENCE_CHARS_MAX: Final = 400
FAILURES: Final = (
    exceptions.RESTError,
    exceptions.CommitFailedException,
    exceptions.NoSuchTableError,
    exceptions.NoSuchNamespaceError,
    exceptions.TableAlreadyExistsError,
    requests.RequestException,
    SQLAlchemyError,
    pydantic.ValidationError,
    OSError,
    ImportError,
)
"""What opening a catalog, asking it and committing to it may raise."""
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_FULL = re.compile(r"database or disk is full")
_SPACE = re.compile(r"\s+")
_DENIED = re.compile(
    r"password authentication failed|no password supplied|Access denied|permission denied|role .* not exist"
)
_UNFIT = re.compile(
    r"unable to open database file|database .* does not exist|not a database|readonly database|Unknown database"
)


class _Http(HTTPAdapter):
    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        options["timeout"] = (CONNECT_SECONDS, REQUEST_SECONDS)
        return super().send(request, *args, **options)


class _Rest(RestCatalog):
    def _create_session(self) -> requests.Session:
        """Also of the first question, which is asked while it is made."""
        session = super()._create_session()
        session.trust_env = False
        for scheme in ("https://", "http://"):
            session.mount(scheme, _Http())
        return session


def connect(catalog: Catalog, storage: Storage) -> Opened:
    """Raises ``Stop``, ``Wait``."""
    properties: dict[str, Any] = {
        "py-io-impl": f"{file_io.TableFiles.__module__}.{file_io.TableFiles.__qualname__}",
        file_io.STORAGE: msgspec.json.encode(storage).decode(),
    }
    try:
        if catalog.type == "sql":
            return _sql(catalog, properties)
        return _Rest(catalog.name, **_rest(catalog), **properties)
    except FAILURES as error:
        raise explain(catalog, error) from error


def explain(catalog: Catalog, error: BaseException) -> errors.Stop | errors.Wait:
    """Which of the few things it can be, in a sentence that names the remedy; no secret is in it."""
    if isinstance(error, errors.Stop | errors.Wait):
        return error
    said = _sentence(error)
    # Not the catalog's doing: it is asked and the table's files are read and written by the same calls.
    if isinstance(error, FileNotFoundError):
        return errors.Stop(errors.TABLE_UNFIT, f"a file that the table names is not there: {said}")
    if (isinstance(error, OSError) and error.errno in _NO_ROOM) or _FULL.search(said):
        return errors.Wait(errors.DISK_FULL, said)
    where = f"[catalog] {_address(catalog)}"
    if isinstance(error, NoSuchModuleError | ImportError):
        remedy = "install the driver beside fairlead[iceberg], such as psycopg[binary] for postgresql+psycopg"
        return errors.Stop(errors.BAD_OPTION, f"{where}: {said}; {remedy}")
    if isinstance(error, ArgumentError):
        return errors.Stop(errors.BAD_OPTION, f"{where}: no address of a database")
    denied = exceptions.UnauthorizedError | exceptions.ForbiddenError | exceptions.OAuthError
    if isinstance(error, denied) or (isinstance(error, OperationalError) and _DENIED.search(said)):
        remedy = "check token_file, credential_file or password_file, and what they may do in the namespace"
        return errors.Stop(errors.CATALOG_DENIED, f"{where}: {said}; {remedy}")
    if isinstance(error, SQLAlchemyError) and _UNFIT.search(said):
        return errors.Stop(errors.CATALOG_UNFIT, f"{where}: {said}; make it, or correct uri")
    away = exceptions.ServerError | exceptions.ServiceUnavailableError | exceptions.CommitStateUnknownException
    if isinstance(error, away | exceptions.TooManyRequestsError | requests.ConnectionError | requests.Timeout):
        return errors.Wait(errors.CATALOG_AWAY, f"{where}: {said}")
    is_no_catalog = isinstance(
        error, pydantic.ValidationError | requests.JSONDecodeError | requests.exceptions.InvalidURL
    )
    if is_no_catalog:
        return errors.Stop(errors.CATALOG_UNFIT, f"{where}: what answers is no Iceberg REST catalog: {said}")
    if isinstance(error, exceptions.RESTError | exceptions.NoSuchNamespaceError):
        return errors.Stop(errors.CATALOG_UNFIT, f"{where}: {said}; check uri, warehouse and namespace")
    return errors.Wait(errors.CATALOG_AWAY, f"{where}: {said}")


def _sql(catalog: Catalog, properties: dict[str, Any]) -> Opened:
    try:
        from pyiceberg.catalog.sql import SqlCatalog
    except ImportError as error:
        raise errors.Stop(errors.BAD_OPTION, f"[catalog] {error}; pip install 'fairlead[iceberg]'") from None
    url = make_url(catalog.uri)
    password = _secret("password_file", catalog.password_file)
    if password is not None:
        url = url.set(password=password)
    found = SqlCatalog(catalog.name, uri=url.render_as_string(hide_password=False), pool_pre_ping="true", **properties)
    if url.get_backend_name() == "sqlite":
        event.listen(found.engine, "connect", _durable)
    return found


def _durable(connection: Any, _: Any) -> None:
    """SQLite's default already, but for builds that say otherwise; and two jobs wait for each other."""
    connection.execute("pragma synchronous = full")
    connection.execute(f"pragma busy_timeout = {CONNECT_SECONDS * 1000}")


def _rest(catalog: Catalog) -> dict[str, Any]:
    found: dict[str, Any] = {
        "uri": catalog.uri,
        "warehouse": catalog.warehouse,
        "token": _secret("token_file", catalog.token_file),
        "credential": _secret("credential_file", catalog.credential_file),
        "oauth2-server-uri": catalog.oauth2_uri,
        "ssl": None if catalog.tls_ca is None else {"cabundle": catalog.tls_ca},
        # Tasks write with the job's own credentials; those that a catalog may lend end within the hour.
        "header.X-Iceberg-Access-Delegation": "",
    }
    return {key: value for key, value in found.items() if value is not None}


def _secret(key: str, file: str | None) -> str | None:
    if file is None:
        return None
    try:
        with Path(file).open() as opened:
            text = opened.read(SECRET_CHARS_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.Stop(errors.BAD_OPTION, f"[catalog] {key} {file}: {error}") from None
    if not text or not text.isprintable():
        raise errors.Stop(errors.BAD_OPTION, f"[catalog] {key} {file}: must be one line of printable characters")
    return text


def _address(catalog: Catalog) -> str:
    return f"{catalog.uri} ({catalog.warehouse})" if catalog.warehouse else catalog.uri


def _sentence(error: BaseException) -> str:
    """Without what SQLAlchemy adds: the statement, and an address of its own pages."""
    text = str(getattr(error, "orig", None) or error) or type(error).__name__
    return _SPACE.sub(" ", text).strip()[:SENTENCE_CHARS_MAX]
