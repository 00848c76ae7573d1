"""Which catalog a job's Iceberg tables are in, and what they are called there.

    s3://bucket/a/telemetry ─ namespace "plant" ─▶ plant.telemetry, plant.telemetry_dead_letters, plant.telemetry_gaps

A catalog knows by name which metadata of a table is the newest, and changes that in one step: that is what makes a
commit.  ``Catalog`` holds no secret, for it travels in the options of a query, which Spark shows to those who look.
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
    """How a catalog is reached."""

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
    """What ``table`` is called there."""
    return (*catalog.namespace.split("."), table.name)


def check_table_name(name: str) -> None:
    """Raises ``ValueError`` where a catalog could not have a table of this name."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"its last part is the table's name in the catalog: letters, digits, _ and -, is {mistakes.shown(name)}"
        )


def check_namespace(name: str) -> None:
    """Raises ``ValueError``."""
    if _NAMESPACE.fullmatch(name) is None:
        raise ValueError(f"must be letters, digits, _ and -, with dots between levels, is {mistakes.shown(name)}")


def check_uri(kind: str, uri: str) -> None:
    """Raises ``ValueError``, which says what is wrong with the address of a catalog; a password in it is not shown."""
    try:
        parts = urlsplit(uri)
        is_address = parts.port is None or parts.port > 0
        has_password = parts.password is not None or any(_SECRET.search(key) for key, _ in parse_qsl(parts.query))
    except ValueError:
        has_password = is_address = False
    if has_password:
        raise ValueError("must not hold the password; write it into a file and name that in password_file")
    if kind == "rest":
        store_path.check_endpoint(uri)
    elif not is_address or _SQL.fullmatch(uri) is None:
        raise ValueError(
            f"must be sqlite:////path/catalog.db or postgresql+psycopg://user@host/database, is {mistakes.shown(uri)}"
        )
