"""The port of the store: ordered keys and values, atomic batches, snapshots.

A store promises: keys in byte order; ``apply`` is atomic and durable when it returns; a snapshot never
changes; ``scan`` is bounded and lazy.  Every store obeys the suite in ``tests/conformance``.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from fairlead_messaging.api.errors import StorageError

PUT, DELETE, DELETE_RANGE = 0, 1, 2


class Gets(Protocol):
    """A store or one of its snapshots."""

    def get(self, key: bytes) -> bytes | None: ...


class BatchMark(NamedTuple):
    """The size of a batch, to which ``Batch.cut`` can return."""

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
        """Its current size, for ``cut``."""
        return BatchMark(len(self.operations), self.size)

    def cut(self, mark: BatchMark) -> None:
        """Remove what ``put`` and ``delete`` added since the mark."""
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
        """Add the removals that cleaning found; code that writes rows again later in this batch checks ``is_removed``
        first."""
        self.operations += removals.operations
        self.size += removals.size
        for kind, low, high in removals.operations:
            if kind == DELETE_RANGE:
                self._emptied.append((low, high))
            else:
                self._rewritten.add(low)

    def is_removed(self, key: bytes) -> bool:
        """Whether cleaning deletes or replaces this row in this batch."""
        return key in self._rewritten or any(low <= key < high for low, high in self._emptied)

    def latest(self, key: bytes, store: Gets) -> bytes | None:
        """The key's value once this batch is applied; it scans every operation, so use it rarely."""
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
        """Whether a single read may take a network round trip, so that no event loop should wait for it."""
        ...

    def apply(self, batch: Batch) -> None:
        """Write all of the batch, durably.  After a StorageError it is unknown whether it took place."""
        ...

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        """Put ``value`` if the key holds ``expected`` (None: is absent); durable when True."""
        ...

    def get(self, key: bytes) -> bytes | None: ...

    def snapshot(self, *, sequential: bool = False) -> Snapshot:
        """``sequential``: the snapshot is read once from end to end, so the store need not cache it."""
        ...

    def compact(self, low: bytes, high: bytes) -> None:
        """Reclaim the space of deleted rows in this range; may take long, changes no answer."""
        ...

    def reclaim(self) -> None:
        """Return a bounded amount of unused space in files to the system."""
        ...

    def close(self) -> None: ...


class OneWriter(ABC):
    """A store with one writer at a time, so that a compare-and-set can simply read first."""

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


class SnapshotBase(ABC):
    """The common part of snapshots: ``take`` by a scan, and a ``with`` that closes them."""

    @abstractmethod
    def scan(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]: ...

    @abstractmethod
    def close(self) -> None: ...

    def take(self, low: bytes, high: bytes, rows_max: int, bytes_max: int) -> tuple[list[bytes], list[bytes]]:
        keys: list[bytes] = []
        values: list[bytes] = []
        size = 0
        for key, value in itertools.islice(self.scan(low, high), rows_max):
            keys.append(key)
            values.append(value)
            size += len(value)
            if size >= bytes_max:
                break
        return keys, values

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class storage_errors:
    """Turns errors of an engine (``kind``) into ``StorageError``, whose message begins with ``doing``."""

    __slots__ = ("_doing", "_kind")

    def __init__(self, doing: str, kind: type[Exception] = Exception) -> None:
        self._doing, self._kind = doing, kind

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, self._kind) and not isinstance(error, StorageError):
            raise StorageError(f"{self._doing}: {error}") from error
