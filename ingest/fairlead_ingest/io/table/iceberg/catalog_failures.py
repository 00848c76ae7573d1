"""Explains a catalog's errors with a code and a sentence, from which secrets are removed."""

from __future__ import annotations

import errno
import re
import zlib
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus

import msgspec
import pydantic
import requests
from pyiceberg import exceptions
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from fairlead_ingest import errors
from fairlead_ingest.io.table.iceberg.secret_file import read_secret
from fairlead_ingest.table.catalog import Catalog
from fairlead_wire import distribution
from fairlead_wire.validation import addresses

SENTENCE_CHARS_MAX: Final = 400
# What pyiceberg raises for invalid table metadata, which other engines may have written.
_NOT_READ: Final = (
    exceptions.ValidationError,
    msgspec.DecodeError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    EOFError,
    AssertionError,
    SystemError,
    zlib.error,
)
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
    *_NOT_READ,
)
"""What opening, reading and committing to a catalog may raise."""
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_FULL = re.compile(r"database or disk is full")
_SPACE = re.compile(r"\s+")
# The part of pydantic's message that quotes its input, which may be any file the catalog names.
_PIECE = re.compile(r"\s*\[type=[^\n]*(\n\s*For further information visit \S*)?")
# PostgreSQL's codes do not depend on its language; a refused connection has no code.
_DENIED_STATES: Final = ("28", "42501")
_UNFIT_STATES: Final = ("3D", "3F")
_DENIED = re.compile(
    r"password authentication failed|no password supplied|Access denied|permission denied|role .* not exist"
    r"|no pg_hba.conf entry"
)
_UNFIT = re.compile(
    r"unable to open database file|database .* does not exist|not a database|readonly database|Unknown database"
    r"|server does not support SSL|invalid connection option|invalid \w+ value: "
    r"|root certificate file .* does not exist|certificate verify failed"
)
_REFUSED = exceptions.UnauthorizedError | exceptions.ForbiddenError | exceptions.OAuthError
_AWAY = (
    exceptions.ServerError
    | exceptions.ServiceUnavailableError
    | exceptions.CommitStateUnknownException
    | exceptions.TooManyRequestsError
    | requests.ConnectionError
    | requests.Timeout
)
_NO_CATALOG = pydantic.ValidationError | requests.JSONDecodeError | requests.exceptions.InvalidURL


def explain(catalog: Catalog, error: BaseException) -> errors.Stop | errors.Wait:
    """Classify the error, with a sentence that names the remedy."""
    if isinstance(error, errors.Stop | errors.Wait):
        return error
    said = _sentence(catalog, error)
    # Errors of the table's files, not of the catalog: the same calls access both.
    if isinstance(error, FileNotFoundError):
        return errors.Stop(errors.TABLE_UNFIT, f"a file of the table is missing: {said}")
    if isinstance(error, IsADirectoryError | NotADirectoryError):
        return errors.Stop(errors.TABLE_UNFIT, f"a path of the table is a folder, not a file, or the reverse: {said}")
    if (isinstance(error, OSError) and error.errno in _NO_ROOM) or _FULL.search(said):
        return errors.Wait(errors.DISK_FULL, said)
    is_answer = isinstance(error, _NO_CATALOG | exceptions.RESTError) and catalog.type == "rest"
    if isinstance(error, _NOT_READ) and not is_answer:
        return errors.Stop(errors.TABLE_UNFIT, f"the table's metadata is invalid: {said}")
    where = f"[catalog] {_address(catalog)}"
    found = _of_database(error, said) if isinstance(error, SQLAlchemyError | ImportError) else _of_service(error)
    if found is None:
        return errors.Wait(errors.CATALOG_AWAY, f"{where}: {said}")
    code, before, remedy = found
    return errors.Stop(code, f"{where}: {before}{said}{remedy}")


def _of_database(error: SQLAlchemyError | ImportError, said: str) -> tuple[str, str, str] | None:
    """The code, and what to put before and after the error's text; None if waiting helps."""
    if isinstance(error, NoSuchModuleError | ImportError):
        package = distribution.with_extra("iceberg")
        remedy = f"; install the driver; {package} includes psycopg, for postgresql+psycopg"
        return errors.BAD_OPTION, "", remedy
    if isinstance(error, ArgumentError):
        return errors.BAD_OPTION, "not a database URL: ", ""
    state = str(getattr(getattr(error, "orig", None), "sqlstate", None) or "")
    if state.startswith(_DENIED_STATES) or _DENIED.search(said):
        return errors.CATALOG_DENIED, "", "; check password_file, and the user's permissions in the database"
    if state.startswith(_UNFIT_STATES) or _UNFIT.search(said):
        return errors.CATALOG_UNFIT, "", "; create it, or correct uri"
    return None


def _of_service(error: BaseException) -> tuple[str, str, str] | None:
    if isinstance(error, _REFUSED):
        remedy = "; check token_file or credential_file, oauth2_scope, and their permissions in the namespace"
        return errors.CATALOG_DENIED, "", remedy
    if isinstance(error, _AWAY):
        return None
    if isinstance(error, requests.TooManyRedirects):
        return errors.CATALOG_UNFIT, "it redirects, which is not followed: ", "; set uri to that address"
    if isinstance(error, _NO_CATALOG):
        return errors.CATALOG_UNFIT, "the server is not an Iceberg REST catalog: ", ""
    if isinstance(error, exceptions.RESTError | exceptions.NoSuchNamespaceError):
        return errors.CATALOG_UNFIT, "", "; check uri, warehouse and namespace"
    return None


def _address(catalog: Catalog) -> str:
    found = f"{catalog.uri} ({addresses.shown(catalog.warehouse)})" if catalog.warehouse else catalog.uri
    return f"{found}, tokens from {catalog.oauth2_uri}" if catalog.oauth2_uri else found


def _sentence(catalog: Catalog, error: BaseException) -> str:
    """The error's text without SQLAlchemy's additions (the statement and a link) and without our secrets, which a
    service may echo."""
    text = _PIECE.sub("", str(getattr(error, "orig", None) or error)) or type(error).__name__
    for secret in _secrets(catalog):
        text = text.replace(secret, "***")
    # Without its full stop, because a remedy follows.
    return _SPACE.sub(" ", text).strip()[:SENTENCE_CHARS_MAX].rstrip(" .")


def _secrets(catalog: Catalog) -> Iterator[str]:
    for key in ("password_file", "token_file", "credential_file"):
        try:
            found = read_secret(key, getattr(catalog, key)) or ""
        except errors.Stop:
            continue
        for each in (found, found.partition(":")[2]):
            if each:
                yield from (each, quote(each, safe=""), quote_plus(each))
