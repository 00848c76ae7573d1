"""The schema of message bodies, as a contract a user writes in a file.

    {"mode": "freeze", "columns": {"temperature": "double", "tags": "array<string>"}}

``mode`` says what happens to a body that does not fit: ``freeze`` (default) makes it a dead letter; ``rescue`` keeps
the row, with nulls in the typed columns and the body in ``_rescued``; ``evolve`` does the same, and fields that have no
column get one (``evolution``). ``decimals`` is ``exact`` (default: a number with more places than its column does not
fit) or ``round``. A file that grows a column later grows the table in any mode: columns are only ever
added, a changed type is refused. Spark's own schema JSON (``{"type": "struct", …}``) and
plain DDL text (``temperature DOUBLE, tags ARRAY<STRING>``) are taken too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import types

from fairlead_ingest import errors
from fairlead_ingest.rows import ddl, fitting
from fairlead_ingest.rows.fitting import Judge

FREEZE, RESCUE, EVOLVE = MODES = ("freeze", "rescue", "evolve")
EXACT, ROUND = DECIMALS = ("exact", "round")
SCHEMA_BYTES_MAX = 1024 * 1024
# So many fields are named in an error; a body with more misfits is of another schema.
MISFITS_MAX = 10
NAME_CHARS_MAX = 255
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
OWN_COLUMNS = frozenset((*ENVELOPE_COLUMNS, *LINEAGE_COLUMNS, RESCUED))


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    columns: dict[str, str]
    mode: str = FREEZE
    decimals: str = EXACT


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """Typed columns of the body and what happens to a body that does not fit."""

    columns: types.StructType
    mode: str = FREEZE
    decimals: str = EXACT

    def judge(self) -> Judge:
        """Who looks at bodies before Spark does."""
        return Judge(self.columns, rounds=self.decimals == ROUND, evolves=self.mode == EVOLVE)

    def encode(self) -> str:
        """As text, for the tasks; ``decode`` is its inverse."""
        return json.dumps({"mode": self.mode, "decimals": self.decimals, "columns": self.columns.jsonValue()})


def decode(text: str) -> Contract:
    """What ``encode`` gave."""
    plain = json.loads(text)
    columns = types.StructType.fromJson(plain["columns"])
    return Contract(columns=columns, mode=plain["mode"], decimals=plain["decimals"])


def parse(text: str, source: str) -> Contract:
    """The contract in a file's ``text``. Raises ``Stop``."""
    if len(text) > SCHEMA_BYTES_MAX:
        raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: over {SCHEMA_BYTES_MAX} characters")
    try:
        contract = _parse(text.strip())
        for field in contract.columns.fields:
            try:
                fitting.check_type(field.dataType)
            except ValueError as error:
                raise ValueError(f"{field.name}: {error}") from None
    except (msgspec.MsgspecError, PySparkException, ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: {_line(error)}") from None
    except RecursionError:
        raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: nested too deep") from None
    names = [field.name.lower() for field in contract.columns.fields]
    for name in names:
        if not name.strip() or len(name) > NAME_CHARS_MAX:
            raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: {name[:40]!r}: 1 to {NAME_CHARS_MAX} characters a name")
        if name in OWN_COLUMNS or name.startswith("_"):
            raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: {name}: the row already has a column of this name")
        if names.count(name) > 1:
            raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: {name}: named twice")
    if not names and contract.mode != EVOLVE:
        raise errors.Stop(errors.SCHEMA_BROKEN, f"{source}: no columns")
    return contract


def misfits(body: str | None, empty: Collection[str]) -> list[str]:
    """Typed columns that are ``empty`` in a row although its body has a value for them."""
    try:
        fields = _FIELDS.decode(body) if body else {}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return []
    return [name for name, value in fields.items() if name in empty and bytes(value) != b"null"]


def with_places(error: str, misfits: Sequence[str]) -> str:
    """A dead letter's error, with the fields that do not fit where that is the reason."""
    names = ", ".join(misfits[:MISFITS_MAX]) if error.startswith(MISFIT) else ""
    return f"{MISFIT} at {names}{error.removeprefix(MISFIT)}" if names else error


def grown(contract: Contract, held: types.StructType) -> Contract:
    """The contract with the columns that a table has ``held`` beyond it and beside the row's own."""
    names = {name.lower() for name in (*contract.columns.names, *OWN_COLUMNS)}
    more = [field for field in held.fields if field.name.lower() not in names]
    return replace(contract, columns=types.StructType([*contract.columns.fields, *more]))


def _parse(text: str) -> Contract:
    if not text.startswith("{"):
        return Contract(columns=ddl.columns_of(text))
    plain = msgspec.json.decode(text)
    if plain.get("type") == "struct":
        return Contract(columns=types.StructType.fromJson(plain))
    file = msgspec.convert(plain, _File)
    for key, value, allowed in (("mode", file.mode, MODES), ("decimals", file.decimals, DECIMALS)):
        if value not in allowed:
            raise ValueError(f"{key}: one of {', '.join(allowed)}, not {value!r}")
    columns = []
    for name, data_type in file.columns.items():
        try:
            columns.append(types.StructField(name, ddl.type_of(data_type)))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return Contract(columns=types.StructType(columns), mode=file.mode, decimals=file.decimals)


def _line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error)).strip()[:300]
