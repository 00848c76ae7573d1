"""Which ranges of a plan become tasks: a task costs more than a small range saves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Range(Protocol):
    """A stretch of a topic as the service's plan names it."""

    @property
    def after(self) -> str: ...
    @property
    def upto(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...


class Part:
    """One task's share: neighbouring ranges of a plan taken together."""

    __slots__ = ("after", "bytes", "rows", "upto")

    def __init__(self, after: str, upto: str, rows: int, size: int) -> None:
        self.after = after
        self.upto = upto
        self.rows = rows
        self.bytes = size

    def __repr__(self) -> str:
        return f"Part({self.after!r}, {self.upto!r}, rows={self.rows}, bytes={self.bytes})"


R = TypeVar("R", bound=Range)


def merge(ranges: Sequence[R], bytes_min: int) -> list[Part]:
    """Join neighbours until each part has ``bytes_min`` bytes; what is left over goes to the last part."""
    parts: list[Part] = []
    for found in ranges:
        if parts and parts[-1].bytes < bytes_min:
            last = parts[-1]
            parts[-1] = Part(last.after, found.upto, last.rows + found.rows, last.bytes + found.bytes)
        else:
            parts.append(Part(found.after, found.upto, found.rows, found.bytes))
    if len(parts) > 1 and parts[-1].bytes < bytes_min:
        tail = parts.pop()
        last = parts[-1]
        parts[-1] = Part(last.after, tail.upto, last.rows + tail.rows, last.bytes + tail.bytes)
    return parts
