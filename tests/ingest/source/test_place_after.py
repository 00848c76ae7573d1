"""Where a topic stands after a batch: what was read, what expired unread, and nothing where there was nothing."""

from __future__ import annotations

from typing import Any

from fairlead_ingest.source.offsets import Gap, TopicOffset, place_after_batch
from fairlead_messaging.api.responses import Plan

HERE = TopicOffset.at(1, "0a", total=10)


def plan(**fields: Any) -> Plan:
    return Plan(**{"service": "s", "generation": 1, "upto": None, "stable": "0f", "rows": 0, "bytes": 0, **fields})


def test_a_batch_goes_as_far_as_its_plan() -> None:
    found = place_after_batch(HERE, plan(upto="0c", rows=2, passed=12), None)
    assert (found.start_position, found.position, found.rows, found.total, found.expired) == ("0a", "0c", 2, 12, 0)


def test_nothing_to_read_and_nothing_to_count_is_no_batch() -> None:
    assert place_after_batch(HERE, plan(passed=10), None) is HERE


def test_what_expired_unread_is_a_batch_of_no_rows() -> None:
    """As far as the topic is stable, and no further than the query was told to go."""
    assert (
        place_after_batch(HERE, plan(passed=13), None).position,
        place_after_batch(HERE, plan(passed=13), None).expired,
    ) == ("0f", 3)
    assert place_after_batch(HERE, plan(passed=13), "0d").position == "0d"


def test_a_total_that_is_too_low_takes_nothing_back() -> None:
    """It is counted from below in the middle of a topic; the next one makes up for it."""
    found = place_after_batch(HERE, plan(upto="0c", rows=4, passed=11), None)
    assert (found.start_total, found.total, found.expired) == (10, 14, 0)


def test_a_gap_is_behind_us_even_if_nothing_follows() -> None:
    missing = TopicOffset(generation=1, position="0a", gap=Gap(reason="expired", rows=3, upto="0b"))
    assert place_after_batch(missing, plan(stable="", generation=1), None).position == "0b"
