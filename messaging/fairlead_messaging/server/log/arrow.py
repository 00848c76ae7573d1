"""A page as an Arrow IPC stream: id (binary), ts (timestamp[us, UTC]), payload (binary).

The stream is handed on as its parts (schema, one record batch after another, end), so nothing is copied to join them.
``ts`` is the publish time out of the id.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from struct import Struct

import pyarrow as pa
import pyarrow.compute as pc

from fairlead_messaging.api.message_id import ID_BYTES, NO_PAYLOAD, POSITION_BYTES

SCHEMA = pa.schema([("id", pa.binary()), ("ts", pa.timestamp("us", tz="UTC")), ("payload", pa.binary())])
HEAD = memoryview(SCHEMA.serialize())
END = memoryview(b"\xff\xff\xff\xff\x00\x00\x00\x00")

_TIME = SCHEMA.field("ts").type
_VALUE_BYTES_MAX = 2**31 - 1
"""Where a value ends at the latest; Arrow's slicing overflows without a stop."""


def encode(ids: Sequence[bytes], payloads: list[bytes]) -> memoryview:
    """One record batch of messages."""
    positions = b"".join([message_id[:POSITION_BYTES] for message_id in ids])
    return _batch(len(ids), pa.py_buffer(b"".join(ids)), positions, pa.array(payloads, pa.binary()))


def encode_plain(keys: list[bytes], values: list[bytes]) -> memoryview:
    """One record batch straight from rows of the message table, each value a byte of flags before its payload.

    No Python object is made for a message: the values become one buffer, out of which Arrow takes the payloads.
    """
    positions = [key[-POSITION_BYTES:] for key in keys]
    ids = NO_PAYLOAD.join(positions) + NO_PAYLOAD
    offsets = array("i", accumulate(map(len, values), initial=0))
    stored = pa.Array.from_buffers(
        pa.binary(), len(keys), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    )
    payloads = pc.binary_slice(stored, 1, _VALUE_BYTES_MAX)
    return _batch(len(keys), pa.py_buffer(ids), b"".join(positions), payloads)


def _batch(count: int, ids: pa.Buffer, positions: bytes, payloads: pa.Array) -> memoryview:
    microseconds = array("q", [milliseconds * 1000 for milliseconds in _times(count).unpack(positions)])
    columns = [
        pa.Array.from_buffers(pa.binary(), count, [None, _id_offsets(count), ids]),
        pa.Array.from_buffers(_TIME, count, [None, pa.py_buffer(microseconds)]),
        payloads,
    ]
    return memoryview(pa.record_batch(columns, schema=SCHEMA).serialize())


@lru_cache(16)
def _times(count: int) -> Struct:
    """Unpacks the milliseconds of so many positions."""
    return Struct(">" + f"q{POSITION_BYTES - 8}x" * count)


@lru_cache(16)
def _id_offsets(count: int) -> pa.Buffer:
    return pa.py_buffer(array("i", range(0, ID_BYTES * count + 1, ID_BYTES)))
