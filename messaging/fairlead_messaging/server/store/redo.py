"""A batch as the changes of single buckets: doing them again, late, or in another order leaves the same rows.

Every change carries the batch's number as its time, and of two changes the later time stands.  So a record needs
nothing but itself to be done: not the directory of its day, not the records before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from fairlead_messaging.server.store.buckets import Changes, Directory
from fairlead_messaging.server.store.layer import Layer


class BucketChanges(msgspec.Struct, array_like=True):
    """Of one bucket: ranges first, then rows (None: deleted)."""

    bucket: bytes
    ranges: list[tuple[bytes, bytes]]
    rows: list[tuple[bytes, bytes | None]]


class RedoRecord(msgspec.Struct, array_like=True):
    """All of one batch."""

    number: int
    sizes: dict[bytes, int]
    """Buckets that are new, or have grown by much: how many bytes were put into each."""
    dropped: list[bytes]
    buckets: list[BucketChanges]

    @property
    def range_time(self) -> int:
        """Ranges come before the rows of the same batch, and of two changes with one time a deletion stands."""
        return 2 * self.number

    @property
    def row_time(self) -> int:
        return 2 * self.number + 1


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(RedoRecord)


def encode(record: RedoRecord) -> bytes:
    return _ENCODER.encode(record)


def decode(raw: bytes) -> RedoRecord:
    """Raises: msgspec.MsgspecError."""
    return _DECODER.decode(raw)


def record_of(layer: Layer, directory: Directory, changes: Changes) -> RedoRecord:
    """``directory`` as it is with the changes."""
    by_bucket: dict[bytes, BucketChanges] = {}

    def of(bucket: bytes) -> BucketChanges:
        found = by_bucket.get(bucket)
        if found is None:
            found = by_bucket[bucket] = BucketChanges(bucket, [], [])
        return found

    for low, high in layer.ranges:
        for bucket, first, last in directory.spans(low, high):
            of(bucket).ranges.append((first, last))
    for key, value in layer.points.items():
        of(directory.bucket(key)).rows.append((key, value))
    return RedoRecord(layer.number, dict.fromkeys(changes.added, 0), changes.dropped, list(by_bucket.values()))


def pieces(value: bytes, size: int) -> Iterator[bytes]:
    """A value in pieces that a row may hold; at least one."""
    for first in range(0, max(1, len(value)), size):
        yield value[first : first + size]
