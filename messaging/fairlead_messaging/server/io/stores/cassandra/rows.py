"""The rows of the store: written with the number of their batch as timestamp, read in pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from cassandra.query import BatchStatement, BatchType

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.cassandra.session import PIECE_BYTES, CassandraSession, TooManyTombstones
from fairlead_messaging.server.store.buckets import BucketChanges, Directory, RedoRecord, value_pieces
from fairlead_messaging.server.store.layer import UNTOUCHED, Layer, Row, Untouched, flattened, lookup, over
from fairlead_messaging.server.store.ordered_kv import SnapshotBase

BATCH_BYTES: Final = 256 * 1024
BATCH_STATEMENTS: Final = 300
AT_ONCE: Final = 16
FIRST_ROWS: Final = 16
"""The first page of a scan is small, since many scans need one row; that also bounds pages of the largest rows."""
PAGE_BYTES: Final = 1024 * 1024
PAGE_ROWS_MAX: Final = 4000
STATEMENT_BYTES: Final = 60
"""The size of a statement besides its key and value."""
MORE_DIGITS: Final = 32
"""How much longer a key that divides a range may be than both ends of the range."""
READ, APPLY = "read", "apply"


class BucketRows:
    """The rows of a shard, in buckets, which are read one at a time."""

    def __init__(self, session: CassandraSession, shard: str) -> None:
        self._session = session
        prepare = session.prepare
        this = f"WHERE shard = '{shard}' AND bucket = ?"
        self._put = prepare(
            "INSERT INTO rows (shard, bucket, key, piece, pieces, value)"
            f" VALUES ('{shard}', ?, ?, ?, ?, ?) USING TIMESTAMP ?"
        )
        self._delete = prepare(f"DELETE FROM rows USING TIMESTAMP ? {this} AND key = ?")
        self._empty = prepare(f"DELETE FROM rows USING TIMESTAMP ? {this} AND key >= ? AND key < ?")
        self._drop = prepare(f"DELETE FROM rows USING TIMESTAMP ? {this}")
        self._page = prepare(
            f"SELECT key, piece, pieces, value FROM rows {this} AND (key, piece) >= (?, ?) AND (key) < (?) LIMIT ?"
        )
        self._last = prepare(
            f"SELECT key FROM rows {this} AND key >= ? AND key < ? ORDER BY key DESC, piece DESC LIMIT 1"
        )
        self._add_bucket = prepare(
            f"INSERT INTO buckets (shard, low, bytes) VALUES ('{shard}', ?, ?) USING TIMESTAMP ?"
        )
        self._drop_bucket = prepare(f"DELETE FROM buckets USING TIMESTAMP ? WHERE shard = '{shard}' AND low = ?")
        self._buckets = prepare(f"SELECT low, bytes FROM buckets WHERE shard = '{shard}'")

    def apply(self, records: Sequence[RedoRecord]) -> None:
        """Write the rows of these records; idempotent.  Raises: StorageError."""
        self._session.execute_all(APPLY, self._statements(records), AT_ONCE)

    def buckets(self) -> dict[bytes, int]:
        """The lowest key of every bucket, and about how many bytes were written to it."""
        return {low: size for low, size in self._session.execute(READ, self._buckets)}

    def scan(self, directory: Directory, low: bytes, high: bytes, check: Callable[[], None]) -> Iterator[Row]:
        """The rows in order, read lazily; ``check`` may raise, and is called before each page is used."""
        for bucket, first, last in directory.spans(low, high):
            yield from self._of_bucket(bucket, first, last, check)

    def last_below(self, directory: Directory, low: bytes, high: bytes, check: Callable[[], None]) -> bytes | None:
        """The greatest key in the range."""
        for bucket, first, last in directory.spans_down(low, high):
            scan = _NarrowableRange(first, last)
            while (asked := scan.last()) is not None:
                try:
                    found = self._session.execute(READ, self._last, (bucket, *asked))
                except TooManyTombstones:
                    scan.narrow()
                    continue
                check()
                if found:
                    return bytes(found[0][0])
                scan.drop_last()
        return None

    def _of_bucket(self, bucket: bytes, low: bytes, high: bytes, check: Callable[[], None]) -> Iterator[Row]:
        scan = _NarrowableRange(low, high)
        piece, limit = 0, FIRST_ROWS
        whole = _ValueAssembler()
        while (asked := scan.first()) is not None:
            key, end = asked
            try:
                found = self._session.execute(READ, self._page, (bucket, key, piece, end, limit))
            except TooManyTombstones:
                scan.narrow()
                continue
            check()
            yield from whole.take(found)
            if len(found) < limit:
                scan.drop_first()
                piece = 0
            else:
                scan.continue_from(found[-1][0])
                piece = found[-1][1] + 1
                size = sum(len(row[3]) + len(row[0]) for row in found) // len(found) + STATEMENT_BYTES
                limit = max(FIRST_ROWS, min(PAGE_ROWS_MAX, 4 * limit, PAGE_BYTES // size))

    def _statements(self, records: Sequence[RedoRecord]) -> Iterator[Any]:
        for record in records:
            for low, size in record.sizes.items():
                yield self._add_bucket.bind((low, size, record.row_time))
            for low in record.dropped:
                yield self._drop_bucket.bind((record.range_time, low))
                yield self._drop.bind((record.range_time, low))
            for changes in record.buckets:
                yield from self._batches(changes, record)

    def _batches(self, changes: BucketChanges, record: RedoRecord) -> Iterator[Any]:
        """Batches of statements, each for one partition, so that Cassandra writes it at once."""
        batch, count, size = self._batch(), 0, 0
        for statement, bytes_ in self._of(changes, record):
            if count and (count >= BATCH_STATEMENTS or size + bytes_ > BATCH_BYTES):
                yield batch
                batch, count, size = self._batch(), 0, 0
            batch.add(statement)
            count, size = count + 1, size + bytes_
        if count:
            yield batch

    def _batch(self) -> Any:
        return BatchStatement(BatchType.UNLOGGED, consistency_level=self._session.consistency)

    def _of(self, changes: BucketChanges, record: RedoRecord) -> Iterator[tuple[Any, int]]:
        bucket = changes.bucket
        for low, high in changes.ranges:
            yield self._empty.bind((record.range_time, bucket, low, high)), len(low) + len(high) + STATEMENT_BYTES
        for key, value in changes.rows:
            if value is None:
                yield self._delete.bind((record.row_time, bucket, key)), len(key) + STATEMENT_BYTES
                continue
            cut = list(value_pieces(value, PIECE_BYTES))
            for number, piece in enumerate(cut):
                bound = self._put.bind((bucket, key, number, len(cut), piece, record.row_time))
                yield bound, len(key) + len(piece) + STATEMENT_BYTES


class _ValueAssembler:
    """Joins the pieces of values.  Surplus pieces are left from an earlier, longer value."""

    def __init__(self) -> None:
        self._key = b""
        self._missing = 0
        self._pieces: list[bytes] = []

    def take(self, rows: Sequence[tuple[Any, ...]]) -> Iterator[Row]:
        for key, piece, pieces, value in rows:
            if piece == 0:
                self._key, self._missing, self._pieces = key, pieces, []
            if not self._missing or key != self._key:
                continue
            self._pieces.append(value)
            self._missing -= 1
            if not self._missing:
                yield key, value if len(self._pieces) == 1 else b"".join(self._pieces)


class _NarrowableRange:
    """A range of keys that is read in parts if it has too many deleted rows to be read at once."""

    def __init__(self, low: bytes, high: bytes) -> None:
        self._low, self._high = low, high
        self._digits = max(len(low), len(high)) + MORE_DIGITS
        self._width: int | None = None

    def first(self) -> tuple[bytes, bytes] | None:
        """The lowest part that is left."""
        if self._low >= self._high:
            return None
        if self._width is None:
            return self._low, self._high
        return self._low, min(self._high, self._bytes(self._number(self._low) + self._width))

    def last(self) -> tuple[bytes, bytes] | None:
        """The highest part that is left."""
        if self._low >= self._high:
            return None
        if self._width is None:
            return self._low, self._high
        return max(self._low, self._bytes(max(0, self._number(self._high) - self._width))), self._high

    def continue_from(self, key: bytes) -> None:
        """Continue at this key."""
        self._low = key

    def drop_first(self) -> None:
        """Record that the lowest part has been read."""
        part = self.first()
        self._low = part[1] if part else self._high
        self._widen()

    def drop_last(self) -> None:
        part = self.last()
        self._high = part[0] if part else self._low
        self._widen()

    def narrow(self) -> None:
        """Halve the parts.  Raises: TooManyTombstones if they cannot be halved."""
        width = self._width or self._number(self._high) - self._number(self._low)
        if width < 2:
            raise TooManyTombstones("cassandra read: too many deleted rows between two keys")
        self._width = width // 2

    def _widen(self) -> None:
        if self._width is not None:
            self._width *= 2

    def _number(self, key: bytes) -> int:
        return int.from_bytes(key.ljust(self._digits, b"\x00"), "big")

    def _bytes(self, number: int) -> bytes:
        top = 256**self._digits
        return number.to_bytes(self._digits, "big") if number < top else b"\xff" * self._digits


class CassandraSnapshot(SnapshotBase):
    """Rows and the layers over them; ``check(number)`` raises if the rows may have changed."""

    def __init__(
        self,
        rows: BucketRows,
        directory: Directory,
        number: int,
        layers: Sequence[Layer],
        check: Callable[[int], None],
        closed: Callable[[int], None],
    ) -> None:
        self._rows = rows
        self._directory = directory
        self.number = number
        self._layers = layers
        self._check_number = check
        self._closed: Callable[[int], None] | None = closed

    def get(self, key: bytes) -> bytes | None:
        self._check()
        value = lookup(self._layers, key)
        if not isinstance(value, Untouched):
            return value
        found = next(self._rows.scan(self._directory, key, key + b"\x00", self._check), None)
        return found[1] if found else None

    def scan(self, low: bytes, high: bytes) -> Iterator[Row]:
        self._check()
        if low < high:
            yield from over(self._rows.scan(self._directory, low, high, self._check), self._layers, low, high)

    def last_below(self, low: bytes, high: bytes) -> Row | None:
        self._check()
        layer = flattened(self._layers, low, high)
        while True:
            below = self._rows.last_below(self._directory, low, high, self._check) if low < high else None
            added = next((key for key in reversed(layer.points_in(low, high)) if layer.points[key] is not None), None)
            if below is not None and (added is None or below > added):
                if layer.lookup(below) is UNTOUCHED:
                    value = self.get(below)
                    assert value is not None
                    return below, value
                high = self._below_emptied(layer, below)
                continue
            if added is None:
                return None
            value = layer.points[added]
            assert value is not None
            return added, value

    def close(self) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            closed(self.number)

    def _below_emptied(self, layer: Layer, key: bytes) -> bytes:
        """The lowest key from which the layer empties everything up to this deleted key."""
        for first, last in layer.ranges:
            if first <= key < last and not layer.points_in(first, key):
                return first
        return key

    def _check(self) -> None:
        if self._closed is None:
            raise StorageError("the snapshot is closed")
        self._check_number(self.number)
