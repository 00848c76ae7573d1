"""Record batches hold what they were given, and joined they are one stream."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa

from fairlead_messaging.api.message_id import NO_PAYLOAD, Position
from fairlead_messaging.server.log import bulk_page, rows


def read(*batches: memoryview) -> Any:
    return pa.ipc.open_stream(pa.py_buffer(b"".join((bulk_page.HEAD, *batches, bulk_page.END)))).read_all()


def test_columns_and_types() -> None:
    """id and payload as bytes, ts the publish time in UTC with microseconds."""
    message_id = Position(1_700_000_000_123, 7).encode() + NO_PAYLOAD
    table = read(bulk_page.encode([message_id], [b"\x00\xff"]))
    assert table.schema == pa.schema(
        [("id", pa.binary()), ("ts", pa.timestamp("us", tz="UTC")), ("payload", pa.binary())]
    )
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=datetime.UTC)
    assert table.to_pylist() == [{"id": message_id, "ts": moment, "payload": b"\x00\xff"}]


def test_rows_and_messages_make_the_same_columns() -> None:
    """From keys and values as they are stored, empty payloads among them, and from ids and payloads."""
    positions = [Position(1_700_000_000_000 + number, number) for number in range(4)]
    payloads = [b"", b"a", b"", b"\x00bc"]
    keys = [b"M" + b"prefix" + each.encode() for each in positions]
    plain = read(bulk_page.encode_plain(keys, [rows.encode(each) for each in payloads]))
    assert plain.equals(read(bulk_page.encode([each.encode() + NO_PAYLOAD for each in positions], payloads)))
    assert plain.column("payload").to_pylist() == payloads


def test_no_batch_is_a_valid_stream() -> None:
    """Schema without rows."""
    assert (read().num_rows, read().column_names) == (0, ["id", "ts", "payload"])
