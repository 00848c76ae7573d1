"""Layers: the changes of a batch, laid over a store that does not have them yet.

A store that writes in two steps (first durably, then where it is read) keeps the batches in between as layers.  A layer
sets a key to a value, deletes it, or does not touch it.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from fairlead_messaging.server.store.ordered_kv import DELETE_RANGE, PUT, Batch

Row = tuple[bytes, bytes]
Range = tuple[bytes, bytes]


class Untouched:
    """The result for a key that a layer does not touch."""


UNTOUCHED: Final = Untouched()


class Layer:
    """The net effect of a batch: ``ranges`` are emptied first, then ``points`` are set (None: deleted)."""

    __slots__ = ("_keys", "_lows", "number", "points", "ranges", "size")

    def __init__(self, number: int, points: dict[bytes, bytes | None], ranges: list[Range], size: int) -> None:
        self.number = number
        self.points = points
        self.ranges = ranges
        """Disjoint, in order."""
        self.size = size
        self._keys = sorted(points)
        self._lows = [low for low, _ in ranges]

    @classmethod
    def of(cls, batch: Batch, number: int) -> Layer:
        """The layer of a batch."""
        points: dict[bytes, bytes | None] = {}
        ranges: list[Range] = []
        run: list[Range] = []
        for kind, key, value in batch.operations:
            if kind == DELETE_RANGE:
                if key < value:
                    run.append((key, value))
                continue
            if run:
                _empty(points, ranges, run)
            points[key] = value if kind == PUT else None
        if run:
            _empty(points, ranges, run)
        return cls(number, points, joined(ranges), batch.size)

    def lookup(self, key: bytes) -> bytes | Untouched | None:
        """The key's value, None if it is deleted, UNTOUCHED if this layer does not touch it."""
        if key in self.points:
            return self.points[key]
        return None if self.empties(key) else UNTOUCHED

    def empties(self, key: bytes) -> bool:
        """Whether the key is in a range that the layer empties."""
        index = bisect.bisect_right(self._lows, key) - 1
        return index >= 0 and key < self.ranges[index][1]

    def points_in(self, low: bytes, high: bytes) -> Sequence[bytes]:
        """Keys of its points with low ≤ key < high, in order."""
        return self._keys[bisect.bisect_left(self._keys, low) : bisect.bisect_left(self._keys, high)]

    def ranges_in(self, low: bytes, high: bytes) -> Iterator[Range]:
        """The parts of its ranges between low and high."""
        index = max(0, bisect.bisect_right(self._lows, low) - 1)
        for first, last in self.ranges[index:]:
            if first >= high:
                return
            if last > low:
                yield max(first, low), min(last, high)


def lookup(layers: Sequence[Layer], key: bytes) -> bytes | Untouched | None:
    """The result of the newest (last) layer that touches the key."""
    for layer in reversed(layers):
        found = layer.lookup(key)
        if found is not UNTOUCHED:
            return found
    return UNTOUCHED


def flattened(layers: Sequence[Layer], low: bytes, high: bytes) -> Layer:
    """One layer with the effect of all layers between low and high."""
    points: dict[bytes, bytes | None] = {}
    ranges: list[Range] = []
    for layer in layers:
        if cut := list(layer.ranges_in(low, high)):
            _empty(points, ranges, cut)
        for key in layer.points_in(low, high):
            points[key] = layer.points[key]
    return Layer(layers[-1].number if layers else 0, points, joined(ranges), 0)


def over(base: Iterable[Row], layers: Sequence[Layer], low: bytes, high: bytes) -> Iterator[Row]:
    """The rows of ``base``, which are those between low and high in order, as the layers change them."""
    if not layers:
        yield from base
        return
    layer = flattened(layers, low, high)
    added = iter(layer.points_in(low, high))
    point = next(added, None)
    for key, value in base:
        while point is not None and point <= key:
            found = layer.points[point]
            if found is not None:
                yield point, found
            point = next(added, None)
        if layer.lookup(key) is UNTOUCHED:
            yield key, value
    while point is not None:
        found = layer.points[point]
        if found is not None:
            yield point, found
        point = next(added, None)


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Disjoint ranges of the same keys, in order."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            if high > found[-1][1]:
                found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return found


def _empty(points: dict[bytes, bytes | None], ranges: list[Range], run: list[Range]) -> None:
    """Empty these ranges in the result so far; clears ``run``."""
    if points:
        emptied = Layer(0, {}, joined(run), 0)
        for key in [key for key in points if emptied.empties(key)]:
            del points[key]
    ranges += run
    run.clear()
