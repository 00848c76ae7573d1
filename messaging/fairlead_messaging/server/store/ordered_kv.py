"""The ordered key-value port everything is stored behind.

A store promises: keys in byte order; ``apply`` is atomic and durable when it returns; a snapshot never
changes; ``scan`` is bounded and lazy.  Every store obeys the suite in ``tests/conformance``.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Protocol, Self

from fairlead_messaging.server.store.batch import Batch


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
