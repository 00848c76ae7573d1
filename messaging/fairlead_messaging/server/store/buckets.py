"""Divides the keys of a store of wide rows into partitions (buckets), so that none grows without bound.

Buckets are contiguous: each is named by its lowest key and ends where the next one begins.  So rows stay in order, a
scan walks from bucket to bucket, and the next key below another is in the same bucket or in the one before.

    one for a letter          tables that stay small
    one for a generation      tables that grow with a topic's messages; begun by the first row
    one more at the end       if the last is full; only for keys above all its rows, so no row ever moves
    dropped                   if a deleted range covers it: one tombstone, however many rows it had
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from fairlead_messaging.server.store.layer import Layer

BUCKET_BYTES_MAX: Final = 32 * 1024 * 1024
"""After this many bytes the next keys at its end begin another bucket; far below the size at which Cassandra warns."""
LETTERS: Final = tuple(bytes([each]) for each in b"DEFHILMOPRSTUWXY")
GROWING: Final = frozenset(b"MPIYER")
GENERATION_BYTES: Final = 4


class Directory:
    """All buckets, by their lowest keys.  Immutable."""

    __slots__ = ("_lows",)

    def __init__(self, lows: Iterable[bytes] = ()) -> None:
        self._lows = tuple(sorted({b"", *LETTERS, *lows}))

    def bucket(self, key: bytes) -> bytes:
        """The bucket of a row with this key."""
        return self._lows[bisect.bisect_right(self._lows, key) - 1]

    def __contains__(self, low: bytes) -> bool:
        index = bisect.bisect_left(self._lows, low)
        return index < len(self._lows) and self._lows[index] == low

    def __len__(self) -> int:
        return len(self._lows)

    def end(self, bucket: bytes) -> bytes | None:
        """The first key above the bucket; None for the last one."""
        index = bisect.bisect_right(self._lows, bucket)
        return self._lows[index] if index < len(self._lows) else None

    def spans(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
        """(bucket, from, to) of each piece of low ≤ key < high, in order."""
        if low >= high:
            return
        index = bisect.bisect_right(self._lows, low) - 1
        while index < len(self._lows) and self._lows[index] < high:
            end = self._lows[index + 1] if index + 1 < len(self._lows) else high
            first, last = max(low, self._lows[index]), min(high, end)
            if first < last:
                yield self._lows[index], first, last
            index += 1

    def spans_down(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
        """The same pieces in descending order."""
        if low >= high:
            return
        index = bisect.bisect_left(self._lows, high) - 1
        end = high
        while index >= 0 and end > low:
            first = max(low, self._lows[index])
            if first < end:
                yield self._lows[index], first, end
            end = first
            index -= 1

    def changed(self, added: Iterable[bytes], dropped: Iterable[bytes]) -> Directory:
        return Directory((set(self._lows) - set(dropped)) | set(added))


class Changes(NamedTuple):
    """Changes of the directory by one batch."""

    added: list[bytes]
    dropped: list[bytes]


def group(key: bytes) -> bytes | None:
    """The lowest key of the topic's generation, in a table that grows with it; None for other keys."""
    if not key or key[0] not in GROWING:
        return None
    first = key.find(b":")
    second = key.find(b":", first + 1) if first >= 0 else -1
    end = second + 1 + GENERATION_BYTES
    return key[:end] if second >= 0 and len(key) > end else None


def changes(
    directory: Directory,
    layer: Layer,
    sizes: dict[bytes, int],
    last_below: Callable[[bytes, bytes | None], bytes | None],
    bucket_bytes_max: int = BUCKET_BYTES_MAX,
) -> Changes:
    """Which buckets this layer adds and drops.

    ``last_below(low, high)`` is the greatest key before the layer.  It is called rarely: for the first row of a topic's
    table, for a full bucket, and for a bucket that a range empties from its middle to its end.
    """
    dropped = [low for low in _emptied(directory, layer, last_below)]
    groups: dict[bytes, None] = {}
    full: dict[bytes, list[bytes]] = {}
    for key, value in layer.points.items():
        if value is None:
            continue
        prefix = group(key)
        if prefix is not None and prefix not in directory:
            groups[prefix] = None
        else:
            bucket = directory.bucket(key)
            if sizes.get(bucket, 0) >= bucket_bytes_max:
                full.setdefault(bucket, []).append(key)
    added = [prefix for prefix in groups if last_below(prefix, directory.end(directory.bucket(prefix))) is None]
    for bucket, keys in full.items():
        if bucket in dropped:
            continue
        last = last_below(bucket, directory.end(bucket))
        above = [key for key in keys if last is None or key > last]
        if above:
            added.append(min(above))
        else:
            sizes[bucket] //= 2  # the row is between others: try again when it has grown by as much
    return Changes(added, dropped)


def _emptied(
    directory: Directory, layer: Layer, last_below: Callable[[bytes, bytes | None], bytes | None]
) -> Iterator[bytes]:
    for low, high in layer.ranges:
        for bucket, first, last in directory.spans(low, high):
            end = directory.end(bucket)
            if bucket in LETTERS or not bucket or end is None or last < end:
                continue
            if first == bucket or last_below(bucket, first) is None:
                yield bucket


# --- Redo records: one batch as changes of single buckets. Applying them twice, late, or in another order leaves the
# same rows, because every change has the number of its batch as timestamp, and the later timestamp wins. A record can
# be applied without the directory of its time or the records before it.


class BucketChanges(msgspec.Struct, array_like=True):
    """The changes of one bucket: ranges first, then rows (None: deleted)."""

    bucket: bytes
    ranges: list[tuple[bytes, bytes]]
    rows: list[tuple[bytes, bytes | None]]


class RedoRecord(msgspec.Struct, array_like=True):
    """All changes of one batch."""

    number: int
    sizes: dict[bytes, int]
    """How many bytes were put into each bucket that is new or has grown much."""
    dropped: list[bytes]
    buckets: list[BucketChanges]

    @property
    def range_time(self) -> int:
        """Ranges precede the rows of their batch; of two changes with the same timestamp a deletion wins."""
        return 2 * self.number

    @property
    def row_time(self) -> int:
        return 2 * self.number + 1


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(RedoRecord)


def encode_record(record: RedoRecord) -> bytes:
    return _ENCODER.encode(record)


def decode_record(raw: bytes) -> RedoRecord:
    """Raises: msgspec.MsgspecError."""
    return _DECODER.decode(raw)


def record_of(layer: Layer, directory: Directory, changes: Changes) -> RedoRecord:
    """The record of a layer; ``directory`` includes the changes."""
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


def value_pieces(value: bytes, size: int) -> Iterator[bytes]:
    """A value in pieces of at most ``size`` bytes; at least one."""
    for first in range(0, max(1, len(value)), size):
        yield value[first : first + size]
