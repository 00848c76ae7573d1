"""The catalog of a job's Iceberg tables, and their names in it.

    s3://bucket/a/telemetry ─ namespace "plant" ─▶ plant.telemetry, plant.telemetry_dead_letters, plant.telemetry_gaps

A catalog maps a table's name to its newest metadata; changing that atomically is a commit. ``Catalog`` contains no
secrets, because it is passed in the options of a query, which Spark shows.
"""

from __future__ import annotations

import re
from typing import Final, Literal
from urllib.parse import parse_qsl, urlsplit

import msgspec

from fairlead_ingest.table import store_path
from fairlead_ingest.table.store_path import Place
from fairlead_wire.validation import mistakes

NAME_DEFAULT: Final = "fairlead"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_NAMESPACE = re.compile(r"[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7}")
_SECRET = re.compile(r"passw|pwd|secret|token", re.IGNORECASE)
_SQL = re.compile(r"(sqlite|postgresql(\+\w+)?|mysql(\+\w+)?)://.*")


class Catalog(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The address of a catalog and how to access it."""

    type: Literal["sql", "rest"]
    uri: str
    name: str = NAME_DEFAULT
    namespace: str = NAME_DEFAULT
    warehouse: str | None = None
    password_file: str | None = None
    token_file: str | None = None
    credential_file: str | None = None
    oauth2_uri: str | None = None
    oauth2_scope: str | None = None
    tls_ca: str | None = None


def identifier(catalog: Catalog, table: Place) -> tuple[str, ...]:
    """The name of ``table`` in the catalog."""
    return (*catalog.namespace.split("."), table.name)


def check_table_name(name: str) -> None:
    """Raise ``ValueError`` if a catalog cannot have a table of this name."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"its last part is the table's name in the catalog: letters, digits, _ and -, is {mistakes.shown(name)}"
        )


def check_namespace(name: str) -> None:
    """Raise ``ValueError`` if the namespace is invalid."""
    if _NAMESPACE.fullmatch(name) is None:
        raise ValueError(f"must be letters, digits, _ and -, with dots between levels, is {mistakes.shown(name)}")


def check_uri(kind: str, uri: str) -> None:
    """Raise ``ValueError`` if the address of a catalog is invalid; its text never shows a password."""
    try:
        parts = urlsplit(uri)
        is_address = parts.port is None or parts.port > 0
        has_password = parts.password is not None or any(_SECRET.search(key) for key, _ in parse_qsl(parts.query))
    except ValueError:
        has_password = is_address = False
    if has_password:
        raise ValueError("must not contain the password; write it to a file and set password_file")
    if kind == "rest":
        store_path.check_endpoint(uri)
    elif not is_address or _SQL.fullmatch(uri) is None:
        raise ValueError(
            f"must be sqlite:////path/catalog.db or postgresql+psycopg://user@host/database, is {mistakes.shown(uri)}"
        )
