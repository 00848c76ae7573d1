"""Gap records: messages that an edge agent sends instead of messages that its disk lost.

    rows ─┬─▶ rows of the table
          └─▶ records: the missing sequences of a queue, and why; rows of ``<table>_gaps``

Such a message has the source ``/fairlead/gaps`` and a body of five fields, and does not become a row of the table. A
message from that source with any other body is an ordinary row.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

SOURCE: Final = "/fairlead/gaps"
NO_BODY: Final = "{}"
"""The text from which a contract's columns are read for a gap record, which has no measurements."""
RECORDS_MAX: Final = 10_000
"""Per task, as the driver holds all records of a batch; further ones stay rows."""
TEXT_CHARS_MAX: Final = 1024
"""Length of a queue's name and a reason, which commits and events contain. Longer: a row; node names are cut."""
_COLUMNS: Final = ("source", "body", "node", "_topic", "_id")
_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]


class GapRecord(msgspec.Struct, frozen=True, kw_only=True):
    """At most ``count`` messages are missing from ``from_sequence`` to ``to_sequence``, both inclusive."""

    topic: str
    id: str
    node: str | None
    queue: str
    from_sequence: int
    to_sequence: int
    count: int
    reason: str


class _Body(msgspec.Struct, frozen=True):
    queue: _Text
    from_sequence: _Long
    to_sequence: _Long
    count: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    reason: _Text


_decode = msgspec.json.Decoder(_Body).decode


def split(rows: pa.Table, room: int = RECORDS_MAX) -> tuple[pa.Table, list[GapRecord]]:
    """Separate the rows of the table from up to ``room`` gap records."""
    if room <= 0 or not all(_is_text(rows, name) for name in _COLUMNS):
        return rows, []
    of_source = pc.fill_null(pc.equal(rows["source"], SOURCE), False)
    if not pc.any(of_source).as_py():
        return rows, []
    found: list[GapRecord] = []
    taken: list[int] = []
    numbers = pc.indices_nonzero(of_source).to_pylist()
    for number, row in zip(numbers, rows.select(_COLUMNS).filter(of_source).to_pylist(), strict=True):
        record = _record(row)
        if record is not None and len(found) < room:
            found.append(record)
            taken.append(number)
    left = pc.invert(pc.is_in(pa.array(range(rows.num_rows), pa.int64()), value_set=pa.array(taken, pa.int64())))
    return rows.filter(left), found


def among(sources: pa.Array, bodies: pa.Array) -> pa.Array:
    """For each message, whether it is a gap record, by its source and body."""
    of_source = pc.fill_null(pc.equal(sources, SOURCE), False)
    if not pc.any(of_source).as_py():
        return of_source
    pairs = zip(of_source.to_pylist(), bodies.to_pylist(), strict=True)
    return pa.array([is_source and _body(body) is not None for is_source, body in pairs], pa.bool_())


def _is_text(rows: pa.Table, name: str) -> bool:
    """Whether the column exists and is text, as transforms may drop or replace columns."""
    if name not in rows.column_names:
        return False
    kind = rows.schema.field(name).type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _body(text: str | None) -> _Body | None:
    try:
        return _decode(text or "")
    except (msgspec.MsgspecError, RecursionError):
        return None


def _record(row: dict[str, str | None]) -> GapRecord | None:
    body = _body(row["body"])
    if body is None:
        return None
    node = row["node"] and row["node"][:TEXT_CHARS_MAX]
    return GapRecord(topic=row["_topic"] or "", id=row["_id"] or "", node=node, **msgspec.structs.asdict(body))
