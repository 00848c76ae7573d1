"""A plan's ranges become tasks worth starting."""

from __future__ import annotations

from fairlead_ingest.source import offset_ranges
from fairlead_ingest.source.offset_ranges import Part


def parts(*sizes: int) -> list[Part]:
    bounds = [f"{index:02x}" for index in range(len(sizes) + 1)]
    return [Part(bounds[index], bounds[index + 1], size, size) for index, size in enumerate(sizes)]


def shown(found: list[Part]) -> list[tuple[str, str, int]]:
    return [(part.after, part.upto, part.rows) for part in found]


def test_small_neighbours_become_one_task() -> None:
    """A task costs more than a small range saves."""
    assert shown(offset_ranges.merge(parts(3, 3, 3), 100)) == [("00", "03", 9)]


def test_large_ranges_stay_apart() -> None:
    """They are what the cores are for."""
    assert shown(offset_ranges.merge(parts(100, 120), 100)) == [("00", "01", 100), ("01", "02", 120)]


def test_a_small_rest_goes_with_the_last() -> None:
    """No task for crumbs."""
    assert shown(offset_ranges.merge(parts(100, 100, 5), 100)) == [("00", "01", 100), ("01", "03", 105)]


def test_nothing_planned_is_no_task() -> None:
    """An empty batch."""
    assert offset_ranges.merge([], 100) == []
