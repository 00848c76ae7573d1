"""A plan's ranges become tasks worth starting."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from fairlead_ingest.source import offset_ranges
from fairlead_ingest.source.offset_ranges import RANGE_BYTES, OffsetRange


@dataclass(frozen=True)
class Part:
    after: str
    upto: str
    rows: int
    bytes: int


def merged(*sizes: int, bytes_min: int = 100) -> list[tuple[str, str, int]]:
    planned = [Part(f"{index:02x}", f"{index + 1:02x}", size, size) for index, size in enumerate(sizes)]
    found = offset_ranges.merged("a/t", 3, planned, bytes_min)
    assert all((each.topic, each.generation, each.size_bytes) == ("a/t", 3, each.rows) for each in found)
    return [(each.after, each.upto, each.rows) for each in found]


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ((), []),
        ((3, 3, 3), [("00", "03", 9)]),
        ((100, 120), [("00", "01", 100), ("01", "02", 120)]),
        ((100, 100, 5), [("00", "01", 100), ("01", "03", 105)]),
    ],
)
def test_small_neighbours_become_one_range(sizes, found):
    assert merged(*sizes) == found


def ranges(*sizes: int) -> list[OffsetRange]:
    return [
        OffsetRange(topic=f"a/{number}", generation=1, after="", upto="0f", rows=1, size_bytes=size)
        for number, size in enumerate(sizes)
    ]


def test_many_small_topics_are_few_tasks():
    """A hundred topics with a message each cost two tasks on two cores, not a hundred."""
    found = offset_ranges.grouped(ranges(*[200] * 100), tasks_min=2, bytes_min=8 * 1024 * 1024)
    assert [len(group) for group in found] == [50, 50]


def test_few_topics_stay_apart():
    assert len(offset_ranges.grouped(ranges(200, 300), tasks_min=4, bytes_min=1000)) == 2
    assert offset_ranges.grouped([], tasks_min=4, bytes_min=1000) == []


def test_each_range_is_in_one_group_and_groups_are_balanced():
    """Whatever the sizes: no group is above the mean by more than the largest range."""
    draw = random.Random(7)
    for _ in range(200):
        found = ranges(*(draw.randrange(0, 50_000_000) for _ in range(draw.randrange(1, 60))))
        groups = offset_ranges.grouped(found, tasks_min=draw.randrange(1, 9), bytes_min=8 * 1024 * 1024)
        assert sorted(each.topic for group in groups for each in group) == sorted(each.topic for each in found)
        assert all(groups)
        loads = [sum(each.size_bytes + RANGE_BYTES for each in group) for group in groups]
        assert max(loads) <= sum(loads) / len(loads) + max(each.size_bytes + RANGE_BYTES for each in found)
