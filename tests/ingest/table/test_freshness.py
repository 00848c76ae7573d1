"""Ages as counts that add up."""

from __future__ import annotations

from fairlead_ingest.table import commit_info


def test_counts_of_tasks_add_up() -> None:
    """A task that saw nothing adds nothing."""
    assert commit_info.add_ages([[1, 2], [], [0, 5]])[:3] == [1, 7, 0]


def test_a_quantile_is_the_bound_below_which_that_part_lies() -> None:
    """Nine young ones and an old one."""
    counts = [9] + [0] * (len(commit_info.AGE_BUCKETS) - 1) + [1]
    assert commit_info.age_quantile(counts, 0.5) == commit_info.AGE_BUCKETS[0]
    assert commit_info.age_quantile(counts, 0.95) == float("inf")
    assert commit_info.age_quantile([0, 0], 0.5) is None
