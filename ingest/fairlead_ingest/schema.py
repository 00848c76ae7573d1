"""The schema of message bodies, as a contract a user writes in a file.

    {"mode": "freeze", "columns": {"temperature": "double", "tags": "array<string>"}}

``mode`` says what happens to a body that does not fit: ``freeze`` (default) makes it a dead letter; ``rescue`` keeps
the row, with nulls in the typed columns and the body in ``_rescued``. A file that grows a column later evolves the
table: columns are only ever added, a changed type is refused. Spark's own schema JSON (``{"type": "struct", …}``) and
plain DDL text (``temperature DOUBLE, tags ARRAY<STRING>``) are taken too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec
from pyspark.sql import types

from fairlead_ingest import errors

MODES = ("freeze", "rescue")
SCHEMA_BYTES_MAX = 1024 * 1024
RESCUED = "_rescued"
# Names a typed column may not take: they are the row's own.
ENVELOPE_COLUMNS = (
    "id", "node", "epoch", "stream", "sequence", "source", "priority", "enqueued_at",
    "properties", "system_properties", "body",
)  # fmt: skip
LINEAGE_COLUMNS = ("_topic", "_id", "_published_at", "_ingested_at", "_batch", "_date")


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    columns: dict[str, str]
    mode: str = "freeze"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """Typed columns of the body and what happens to a body that does not fit."""

    columns: types.StructType
    mode: str = "freeze"


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
    taken = {name.lower() for name in (*ENVELOPE_COLUMNS, *LINEAGE_COLUMNS, RESCUED)}
    for name in names:
        if name in taken or name.startswith("_"):
            raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: {name}: the row already has a column of this name")
        if names.count(name) > 1:
            raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: {name}: named twice")
    if not names:
        raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: no columns")
    return contract


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
