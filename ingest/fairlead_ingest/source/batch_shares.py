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
# What is left is worth another round from this part of a batch on.
_WORTH: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a topic takes of the batch, and whether it has more than it was allowed."""

    rows: int
    size_bytes: int
    has_more: bool


def again(
    used: Mapping[str, Used], limit_rows: int | None, limit_bytes: int | None
) -> dict[str, tuple[int | None, int | None]]:
    """Larger limits (rows, bytes) for the topics that have more, while the batch has room; else none."""
    hungry = [topic for topic, each in used.items() if each.has_more]
    rows = _left(limit_rows, sum(each.rows for each in used.values()))
    size = _left(limit_bytes, sum(each.size_bytes for each in used.values()))
    if not hungry or rows == 0 or size == 0:
        return {}
    return {
        topic: (
            None if rows is None else used[topic].rows + rows // len(hungry),
            None if size is None else used[topic].size_bytes + size // len(hungry),
        )
        for topic in hungry
    }


def anew(used: Mapping[str, Used], limit_rows: int | None) -> dict[str, tuple[int | None, int | None]]:
    """Limits for the topics that have more, where the batch is to be smaller than they were planned for."""
    hungry = [topic for topic, each in used.items() if each.has_more]
    if limit_rows is None or sum(each.rows for each in used.values()) <= limit_rows:
        return {}
    # The others keep what they took: a topic that is up to date stays so.
    left = max(limit_rows - sum(each.rows for each in used.values() if not each.has_more), len(hungry))
    return {topic: (min(used[topic].rows, left // len(hungry)), used[topic].size_bytes) for topic in hungry}


def _left(limit: int | None, used: int) -> int | None:
    """None without a limit; 0 where it is not worth asking."""
    if limit is None:
        return None
    left = limit - used
    return left if left * _WORTH >= limit else 0
