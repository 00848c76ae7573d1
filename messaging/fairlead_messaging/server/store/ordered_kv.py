"""The ordered key-value port everything is stored behind.

A store promises: keys in byte order; ``apply`` is atomic and durable when it returns; a snapshot never
changes; ``scan`` is bounded and lazy.  Every store obeys the suite in ``tests/conformance``.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import NamedTuple, Protocol, Self

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


class Snapshot(Protocol):
    """The store as it was at one moment; close it (or use ``with``) as soon as possible."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows with low ≤ key < high in ascending order, lazily."""
        ...

    def take(self, low: bytes, high: bytes, rows_max: int, bytes_max: int) -> tuple[list[bytes], list[bytes]]:
        """The first rows of such a scan at once, as keys and values: the cheapest way to read many.

        Ends after ``rows_max`` rows, or with the row by which the values have ``bytes_max`` bytes.
        """
        ...

    def last_below(self, low: bytes, high: bytes) -> tuple[bytes, bytes] | None:
        """The row with the greatest key in low ≤ key < high."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class OrderedKV(Protocol):
    """A store.  One writer at a time; readers from any thread.  Failures raise ``StorageError``."""

    @property
    def is_remote(self) -> bool:
        """Whether a single read may take as long as a network does, so that no event loop waits for it."""
        ...

    def apply(self, batch: Batch) -> None:
        """All of the batch, durable on return.  On StorageError it is unknown whether it took place."""
        ...

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        """Put ``value`` if the key holds ``expected`` (None: is absent); durable when True."""
        ...

    def get(self, key: bytes) -> bytes | None: ...

    def snapshot(self, *, sequential: bool = False) -> Snapshot:
        """``sequential``: what is read goes by once, so the store need not keep it at hand."""
        ...

    def compact(self, low: bytes, high: bytes) -> None:
        """Reclaim the space of deleted rows in this range; may take long, changes no answer."""
        ...

    def reclaim(self) -> None:
        """Give space that files hold and nothing uses back to the system, a bounded piece."""
        ...

    def close(self) -> None: ...


class OneWriter(ABC):
    """A store that relies on its having one writer at a time: for a comparison, reading first is enough."""

    is_remote = False

    @abstractmethod
    def apply(self, batch: Batch) -> None: ...

    @abstractmethod
    def get(self, key: bytes) -> bytes | None: ...

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        if self.get(key) != expected:
            return False
        batch = Batch()
        batch.put(key, value)
        self.apply(batch)
        return True


class Closing(ABC):
    """A snapshot that is closed where its ``with`` ends."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def take_of(rows: Iterable[tuple[bytes, bytes]], rows_max: int, bytes_max: int) -> tuple[list[bytes], list[bytes]]:
    """``Snapshot.take`` over any scan."""
    keys: list[bytes] = []
    values: list[bytes] = []
    size = 0
    for key, value in itertools.islice(rows, rows_max):
        keys.append(key)
        values.append(value)
        size += len(value)
        if size >= bytes_max:
            break
    return keys, values
