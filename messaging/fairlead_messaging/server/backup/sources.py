"""What a backup is read from, beside a file: pieces as they are made, and anything while it is copied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Source(Protocol):
    """Something with bytes to read."""

    def read(self, size: int, /) -> bytes:
        """So many bytes, fewer at the end alone."""
        ...


class ByteSink(Protocol):
    """Something that takes all bytes it is given."""

    def write(self, data: bytes, /) -> int: ...


class Pieces:
    """Pieces of any size, read in others."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = bytearray()

    def read(self, size: int, /) -> bytes:
        while len(self._left) < size and (piece := next(self._pieces, None)) is not None:
            self._left += piece
        found = bytes(self._left[:size])
        del self._left[:size]
        return found


class Copied:
    """What is read from ``source`` is in ``sink``, too."""

    def __init__(self, source: Source, sink: ByteSink) -> None:
        self._source, self._sink = source, sink

    def read(self, size: int, /) -> bytes:
        found = self._source.read(size)
        self._sink.write(found)
        return found
