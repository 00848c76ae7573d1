"""Which offset ranges of a plan become tasks: a task costs more than a small range saves.

plan of a topic ──merged──▶ its ranges, none small ──grouped──▶ one tuple for each task, over all topics
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

# What a range costs beside its bytes: a request and an answer, about as long as so many bytes take.
RANGE_BYTES = 64 * 1024


class Planned(Protocol):
    """A range of a topic as the service's plan names it."""

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
    """Of ``topic`` in ``generation``: after ``after`` (exclusive) up to ``upto`` (inclusive), about so many rows."""

    topic: str
    generation: int
    after: str
    upto: str
    rows: int
    size_bytes: int = 0


def merged(topic: str, generation: int, planned: Sequence[Planned], bytes_min: int) -> list[OffsetRange]:
    """Neighbours joined until each range has ``bytes_min`` bytes; what is left over goes to the last one."""
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
    """The ranges of one batch, one group for each task and none empty; groups take about equally long.

    As many tasks as ranges up to ``tasks_min``, and more only while each still has ``bytes_min`` bytes: a hundred
    topics with a few messages each are ``tasks_min`` tasks.
    """
    total = sum(each.size_bytes for each in ranges)
    count = min(len(ranges), max(tasks_min, total // bytes_min))
    groups: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    # The largest first, each to the group that has least: none is far above the mean.
    for index in sorted(range(len(ranges)), key=lambda each: -ranges[each].size_bytes):
        lightest = loads.index(min(loads))
        groups[lightest].append(index)
        loads[lightest] += ranges[index].size_bytes + RANGE_BYTES
    return [tuple(ranges[index] for index in group) for group in sorted(sorted(group) for group in groups)]


def _bytes(planned: Sequence[Planned]) -> int:
    return sum(each.bytes for each in planned)
