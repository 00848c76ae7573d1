"""A page as an Arrow IPC stream: id (binary), ts (timestamp[us, UTC]), payload (binary)."""

from __future__ import annotations

import pyarrow as pa

from fairlead_messaging.reader import Page

CONTENT_TYPE = "application/vnd.apache.arrow.stream"
SCHEMA = pa.schema([("id", pa.binary()), ("ts", pa.timestamp("us", tz="UTC")), ("payload", pa.binary())])


def encode(page: Page) -> memoryview:
    """``ts`` is the publish time out of the id."""
    microseconds = [int.from_bytes(message_id[:8], "big") * 1000 for message_id in page.ids]
    columns = [
        pa.array(page.ids, pa.binary()),
        pa.array(microseconds, pa.int64()).cast(SCHEMA.field("ts").type),
        pa.array(page.payloads, pa.binary()),
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        stream.write_batch(pa.record_batch(columns, schema=SCHEMA))
    return memoryview(sink.getvalue())
