"""Messages that arbitrary producers wrote, on their way into rows; and offsets out of a checkpoint."""

from __future__ import annotations

import datetime

import msgspec
import pyarrow as pa
from tests.fuzz.target import Target, promise

from fairlead_ingest.errors import Stop
from fairlead_ingest.rows import envelope
from fairlead_ingest.source import offsets

_NOW = datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)
GOOD = b'{"id":"1","node":"n","epoch":1,"stream":"s","sequence":1,"source":"/messages","priority":5,"body":{}}'


def row(payload: bytes) -> None:
    """One bad message costs its own row, never the page: the good one beside it is always a row."""
    ids, moments = pa.array([b"\x00" * 20, b"\x01" * 20]), pa.array([_NOW, _NOW], envelope.TIMESTAMP)
    page = envelope.page("a/b", ids, moments, pa.array([payload, GOOD], pa.binary()))
    page.validate(full=True)
    promise(page.num_rows == 2, "one row for each message")
    errors = page.column("_error").to_pylist()
    promise(errors[1] is None and page.column("id").to_pylist()[1] == "1", "the good message is a row")
    kept = page.column("_payload").to_pylist()[0]
    promise((errors[0] is None) == (kept is None), "a message that is refused is kept as it came")
    promise(kept in (None, payload), "byte for byte")
    if errors[0] is None:
        values = {name: page.column(name)[0].as_py() for name in envelope.LETTER_COLUMNS}
        again = envelope.payload_again(values)
        other = envelope.page("a/b", ids, moments, pa.array([again, GOOD], pa.binary()))
        promise(other.column("_error").to_pylist()[0] is None, "a row that is set aside later can be read again")


def offset(content: bytes) -> None:
    found = offsets.parse_offsets(content)
    again = offsets.parse_offsets(msgspec.json.encode(found.to_dict()))
    promise(again.to_dict() == found.to_dict(), "an offset is read as it is written")


TARGETS = (
    Target(
        name="ingest-row",
        says="A message on its way into rows: a row or a dead letter, and its neighbours are rows.",
        read=row,
        refusals=(),
        shape="json",
        words=tuple(f'"{each}"'.encode() for each in envelope.Envelope.__struct_fields__),
        tries=150,
    ),
    Target(
        name="ingest-offset",
        says="An offset out of a checkpoint.",
        read=offset,
        refusals=(Stop,),
        shape="json",
    ),
)
