"""Writes that become durable together or not at all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple, Protocol

PUT, DELETE, DELETE_RANGE = 0, 1, 2


class Gets(Protocol):
    """A store or one of its snapshots."""

    def get(self, key: bytes) -> bytes | None: ...


class BatchMark(NamedTuple):
    """How much a batch held at some moment."""

    operations: int
    size: int


class Batch:
    """Writes that become durable together or not at all, applied in the order they were added."""

    __slots__ = ("_emptied", "_rewritten", "operations", "size")

    def __init__(self) -> None:
        self.operations: list[tuple[int, bytes, bytes]] = []
        self.size = 0
        """Bytes of keys and values."""
        self._rewritten: set[bytes] = set()
        self._emptied: list[tuple[bytes, bytes]] = []

    def mark(self) -> BatchMark:
        """Where it stands now, for ``cut``."""
        return BatchMark(len(self.operations), self.size)

    def cut(self, mark: BatchMark) -> None:
        """Take back what ``put`` and ``delete`` added since the mark."""
        del self.operations[mark.operations :]
        self.size = mark.size

    def put(self, key: bytes, value: bytes) -> None:
        self.operations.append((PUT, key, value))
        self.size += len(key) + len(value)

    def put_all(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """As ``put`` for each key with its value."""
        self.operations.extend(zip(itertools.repeat(PUT), keys, values))
        self.size += sum(map(len, keys)) + sum(map(len, values))

    def delete(self, key: bytes) -> None:
        self.operations.append((DELETE, key, b""))
        self.size += len(key)

    def delete_range(self, low: bytes, high: bytes) -> None:
        """Delete low ≤ key < high."""
        self.operations.append((DELETE_RANGE, low, high))
        self.size += len(low) + len(high)

    def remove(self, removals: Batch) -> None:
        """Take over what cleaning found; what writes rows again later in this batch asks ``is_removed`` before."""
        self.operations += removals.operations
        self.size += removals.size
        for kind, low, high in removals.operations:
            if kind == DELETE_RANGE:
                self._emptied.append((low, high))
            else:
                self._rewritten.add(low)

    def is_removed(self, key: bytes) -> bool:
        """Whether cleaning deletes or replaces this row in this very batch."""
        return key in self._rewritten or any(low <= key < high for low, high in self._emptied)

    def latest(self, key: bytes, store: Gets) -> bytes | None:
        """The key's value once this batch is applied; reads every operation, so for rare questions only."""
        for kind, low, value in reversed(self.operations):
            if kind == DELETE_RANGE:
                if low <= key < value:
                    return None
            elif low == key:
                return value if kind == PUT else None
        return store.get(key)

    def __len__(self) -> int:
        return len(self.operations)
