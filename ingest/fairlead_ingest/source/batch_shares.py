"""How the room of one batch is shared by its topics: equally at first; what some leave goes to those that have more.

A quiet topic uses nothing of its share. Were that room lost, one busy topic beside ninety-nine quiet ones would be read
a hundredth of a batch at a time, by one task, and all other cores would be idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# A round asks the service once for each topic that has more; by the third, next to nothing is left.
ROUNDS_MAX: Final = 3
# Less than an eighth of a batch left is not worth another round.
_LEFT_PART: Final = 8

Limits = tuple[int | None, int | None]
"""Rows and bytes; None: as much as there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a topic takes of the batch, and whether it has more than it was allowed."""

    rows: int
    size_bytes: int
    has_more: bool


def larger_limits(used: Mapping[str, Used], limit_rows: int | None, limit_bytes: int | None) -> dict[str, Limits]:
    """For the topics that have more, while the batch has room; empty where it has none."""
    with_more = [topic for topic, each in used.items() if each.has_more]
    rows = _left(limit_rows, sum(each.rows for each in used.values()))
    size = _left(limit_bytes, sum(each.size_bytes for each in used.values()))
    if not with_more or rows == 0 or size == 0:
        return {}
    return {
        topic: (
            None if rows is None else used[topic].rows + rows // len(with_more),
            None if size is None else used[topic].size_bytes + size // len(with_more),
        )
        for topic in with_more
    }


def smaller_limits(used: Mapping[str, Used], limit_rows: int | None) -> dict[str, Limits]:
    """For the topics that have more, where the batch is to be smaller than it was planned; else empty."""
    with_more = [topic for topic, each in used.items() if each.has_more]
    if limit_rows is None or sum(each.rows for each in used.values()) <= limit_rows:
        return {}
    # The others keep what they took: a topic that is up to date stays so.
    left = max(limit_rows - sum(each.rows for each in used.values() if not each.has_more), len(with_more))
    return {topic: (min(used[topic].rows, left // len(with_more)), used[topic].size_bytes) for topic in with_more}


def _left(limit: int | None, used: int) -> int | None:
    """None without a limit; 0 where it is not worth asking."""
    if limit is None:
        return None
    left = limit - used
    return left if left * _LEFT_PART >= limit else 0
