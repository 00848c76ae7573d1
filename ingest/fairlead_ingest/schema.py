"""The schema of message bodies, as a contract a user writes in a file.

    {"mode": "freeze", "columns": {"temperature": "double", "tags": "array<string>"}}

``mode`` says what happens to a body that does not fit: ``freeze`` (default) makes it a dead letter; ``rescue`` keeps
the row, with nulls in the typed columns and the body in ``_rescued``; ``evolve`` does the same, and fields that have no
column get one (``evolution``). A file that grows a column later grows the table in any mode: columns are only ever
added, a changed type is refused. Spark's own schema JSON (``{"type": "struct", …}``) and
plain DDL text (``temperature DOUBLE, tags ARRAY<STRING>``) are taken too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from pyspark.sql import types

from fairlead_ingest import errors

FREEZE, RESCUE, EVOLVE = MODES = ("freeze", "rescue", "evolve")
SCHEMA_BYTES_MAX = 1024 * 1024
# So many fields are named in an error; whoever has more has another schema.
MISFITS_MAX = 10
RESCUED = "_rescued"
# How a dead letter's error begins whose body does not fit; the sink knows which fields it was.
MISFIT = "body does not fit the schema"
# Names a typed column may not take: they are the row's own.
ENVELOPE_COLUMNS = (
    "id", "node", "epoch", "stream", "sequence", "source", "priority", "enqueued_at",
    "properties", "system_properties", "body",
)  # fmt: skip
LINEAGE_COLUMNS = ("_topic", "_id", "_published_at", "_ingested_at", "_batch", "_date")
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TAKEN = frozenset((*ENVELOPE_COLUMNS, *LINEAGE_COLUMNS, RESCUED))


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    columns: dict[str, str]
    mode: str = FREEZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """Typed columns of the body and what happens to a body that does not fit."""

    columns: types.StructType
    mode: str = FREEZE


def parse(text: str, source: str) -> Contract:
    """The contract in a file's ``text``. Needs a running session for types given as text. Raises ``Stop``."""
    if len(text) > SCHEMA_BYTES_MAX:
        raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: over {SCHEMA_BYTES_MAX} characters")
    try:
        contract = _parse(text.strip())
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError) as error:
        raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: {_line(error)}") from None
    except Exception as error:  # noqa: BLE001  Spark's parser raises a tree of its own; all of it means a bad type
        raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: {_line(error)}") from None
    names = [field.name.lower() for field in contract.columns.fields]
    for name in names:
        if name in _TAKEN or name.startswith("_"):
            raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: {name}: the row already has a column of this name")
        if names.count(name) > 1:
            raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: {name}: named twice")
    if not names and contract.mode != EVOLVE:
        raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: no columns")
    return contract


def misfits(row: Mapping[str, Any]) -> list[str]:
    """Typed columns of a decoded row that are null although its body has a value for them."""
    body = row.get("body")
    try:
        fields = _FIELDS.decode(body) if body else {}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return []
    return [name for name, value in fields.items() if bytes(value) != b"null" and name in row and row[name] is None]


def with_places(error: str, row: Mapping[str, Any]) -> str:
    """A dead letter's error, with the fields that do not fit where that is the reason."""
    names = ", ".join(misfits(row)[:MISFITS_MAX]) if error.startswith(MISFIT) else ""
    return f"{MISFIT} at {names}{error.removeprefix(MISFIT)}" if names else error


def grown(contract: Contract, held: types.StructType) -> Contract:
    """The contract with the columns that a table has ``held`` beyond it and beside the row's own."""
    names = {name.lower() for name in (*contract.columns.names, *_TAKEN)}
    more = [field for field in held.fields if field.name.lower() not in names]
    return Contract(columns=types.StructType([*contract.columns.fields, *more]), mode=contract.mode)


def _parse(text: str) -> Contract:
    if not text.startswith("{"):
        return Contract(columns=_ddl(text))
    plain = msgspec.json.decode(text)
    if plain.get("type") == "struct":
        return Contract(columns=types.StructType.fromJson(plain))
    file = msgspec.convert(plain, _File)
    if file.mode not in MODES:
        raise ValueError(f"mode: one of {', '.join(MODES)}, not {file.mode!r}")
    columns = types.StructType()
    for name, kind in file.columns.items():
        columns = columns.add(name, _ddl(f"`c` {kind}").fields[0].dataType)
    return Contract(columns=columns, mode=file.mode)


def _ddl(text: str) -> types.StructType:
    parsed = types.StructType.fromDDL(text)
    if not isinstance(parsed, types.StructType):
        raise ValueError(f"not a list of columns: {text[:100]!r}")
    return parsed


def _line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error)).strip()[:300]
