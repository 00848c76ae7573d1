"""Decides which offset ranges of a plan become tasks; small ranges are combined, because a task has a cost.

plan of a topic ──merged──▶ its ranges, none small ──grouped──▶ one tuple for each task, over all topics
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

# The cost of a range's request, in equivalent bytes.
RANGE_BYTES = 64 * 1024


class Planned(Protocol):
    """A range of a topic in the service's plan."""

    @property
    def after(self) -> str: ...
    @property
    def upto(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """A range of a topic from ``after`` (exclusive) to ``upto`` (inclusive); ``rows`` is an estimate."""

    topic: str
    generation: int
    after: str
    upto: str
    rows: int
    size_bytes: int = 0


def merged(topic: str, generation: int, planned: Sequence[Planned], bytes_min: int) -> list[OffsetRange]:
    """Join neighbours until each range has ``bytes_min`` bytes; a smaller rest goes to the last one."""
    joined: list[list[Planned]] = []
    for each in planned:
        if joined and _bytes(joined[-1]) < bytes_min:
            joined[-1].append(each)
        else:
            joined.append([each])
    if len(joined) > 1 and _bytes(joined[-1]) < bytes_min:
        tail = joined.pop()
        joined[-1] += tail
    return [
        OffsetRange(
            topic=topic,
            generation=generation,
            after=some[0].after,
            upto=some[-1].upto,
            rows=sum(each.rows for each in some),
            size_bytes=_bytes(some),
        )
        for some in joined
    ]


def grouped(ranges: Sequence[OffsetRange], tasks_min: int, bytes_min: int) -> list[tuple[OffsetRange, ...]]:
    """Group the ranges of a batch into tasks of about equal size, none of them empty.

    There are as many tasks as ranges up to ``tasks_min``, and more only if each has ``bytes_min`` bytes. So a hundred
    topics with a few messages each make ``tasks_min`` tasks.
    """
    total = sum(each.size_bytes for each in ranges)
    count = min(len(ranges), max(tasks_min, total // bytes_min))
    groups: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    # Assign the largest first, each to the smallest group, so that no group is far above the mean.
    for index in sorted(range(len(ranges)), key=lambda each: -ranges[each].size_bytes):
        lightest = loads.index(min(loads))
        groups[lightest].append(index)
        loads[lightest] += ranges[index].size_bytes + RANGE_BYTES
    return [tuple(ranges[index] for index in group) for group in sorted(sorted(group) for group in groups)]


def _bytes(planned: Sequence[Planned]) -> int:
    return sum(each.bytes for each in planned)
