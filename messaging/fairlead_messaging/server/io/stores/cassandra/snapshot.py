"""The store as it was after one batch: its rows, and over them the layers that were not among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.cassandra.rows import BucketRows
from fairlead_messaging.server.store.buckets import Directory
from fairlead_messaging.server.store.layer import SILENT, Layer, Row, Silent, flattened, over, says
from fairlead_messaging.server.store.ordered_kv import Closing, take_of


class CassandraSnapshot(Closing):
    """``check(number)`` raises when its rows may not be what they were."""

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
        said = says(self._layers, key)
        if not isinstance(said, Silent):
            return said
        found = next(self._rows.scan(self._directory, key, key + b"\x00", self._check), None)
        return found[1] if found else None

    def scan(self, low: bytes, high: bytes) -> Iterator[Row]:
        self._check()
        if low < high:
            yield from over(self._rows.scan(self._directory, low, high, self._check), self._layers, low, high)

    def take(self, low: bytes, high: bytes, rows_max: int, bytes_max: int) -> tuple[list[bytes], list[bytes]]:
        return take_of(self.scan(low, high), rows_max, bytes_max)

    def last_below(self, low: bytes, high: bytes) -> Row | None:
        self._check()
        layer = flattened(self._layers, low, high)
        while True:
            below = self._rows.last_below(self._directory, low, high, self._check) if low < high else None
            added = next((key for key in reversed(layer.points_in(low, high)) if layer.points[key] is not None), None)
            if below is not None and (added is None or below > added):
                if layer.says(below) is SILENT:
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
        """Nothing is between this and the key, which is gone: as far down as a range says so."""
        for first, last in layer.ranges:
            if first <= key < last and not layer.points_in(first, key):
                return first
        return key

    def _check(self) -> None:
        if self._closed is None:
            raise StorageError("the snapshot is closed")
        self._check_number(self.number)
