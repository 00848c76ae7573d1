"""Arrow pages hold what the page holds."""

from __future__ import annotations

import datetime

import pyarrow as pa

from fairlead_messaging import arrow
from fairlead_messaging.message_id import FIRST, NO_PAYLOAD, Position
from fairlead_messaging.reader import Page


def test_columns_and_types() -> None:
    """id and payload as bytes, ts the publish time in UTC with microseconds."""
    message_id = Position(1_700_000_000_123, 7).encode() + NO_PAYLOAD
    encoded = arrow.encode(Page(ids=[message_id], payloads=[b"\x00\xff"], next_position=message_id))
    table = pa.ipc.open_stream(pa.py_buffer(encoded)).read_all()
    assert table.schema == pa.schema(
        [("id", pa.binary()), ("ts", pa.timestamp("us", tz="UTC")), ("payload", pa.binary())]
    )
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=datetime.UTC)
    assert table.to_pylist() == [{"id": message_id, "ts": moment, "payload": b"\x00\xff"}]


def test_an_empty_page_is_a_valid_stream() -> None:
    """Schema without rows."""
    table = pa.ipc.open_stream(pa.py_buffer(arrow.encode(Page(next_position=FIRST)))).read_all()
    assert (table.num_rows, table.column_names) == (0, ["id", "ts", "payload"])
