"""Gaps follow from where a batch began and ended alone, and are counted, noted or a reason to stop."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from fairlead_ingest import errors
from fairlead_ingest.source import gaps
from fairlead_ingest.source.gaps import GapRow
from fairlead_ingest.source.offsets import Gap, Offsets, TopicOffset

EXPIRED = TopicOffset(
    generation=1, position="0f", start_generation=1, start_position="0a", gap=Gap(reason="expired", upto="0c", rows=3)
)
RECREATED = TopicOffset(
    generation=2, position="02", start_generation=1, start_position="0a", gap=Gap(reason="recreated")
)


def test_a_batch_that_jumped_nowhere_leaves_no_gap():
    assert gaps.of(Offsets(topics={"a/t": TopicOffset.at(1, "0a")}), on_expired="gap") == []


def test_what_expired_is_a_gap_only_where_the_user_wants_it_so():
    end = Offsets(topics={"a/t": EXPIRED})
    assert gaps.of(end, on_expired="count") == []
    assert gaps.of(end, on_expired="gap") == [_gap("0a", "0c", 3)]


def test_the_rest_of_a_deleted_topic_is_always_a_gap():
    found = gaps.of(Offsets(topics={"b/t": RECREATED, "a/t": RECREATED}), on_expired="count")
    assert [(gap.topic, gap.reason, gap.from_generation, gap.to_generation) for gap in found] == [
        ("a/t", "recreated", 1, 2),
        ("b/t", "recreated", 1, 2),
    ]


def _gap(since: str, upto: str, rows: int | None) -> GapRow:
    return GapRow(
        topic="a/t", reason="expired", from_generation=1, from_position=since,
        to_generation=1, to_position=upto, rows=rows,
    )  # fmt: skip


def test_what_is_known_of_a_gap_is_not_said_again():
    known = [_gap("0a", "0c", 3), _gap("0c", "0d", 1)]
    assert gaps.beyond([_gap("0a", "0d", 4)], known) == []
    assert gaps.beyond([_gap("0a", "0f", 6)], known) == [_gap("0d", "0f", 2)]
    assert gaps.beyond([_gap("0a", "0f", None)], known) == [_gap("0d", "0f", None)]


@pytest.mark.slow
def test_many_gaps_are_found_again_in_any_order():
    """A program that may publish can write as many gap records as messages; each pair compared would take an hour."""
    many = [_gap(f"{number:06}", f"{number:06}", 1) for number in range(50_000)]
    assert gaps.beyond([*reversed(many), _gap("1a", "1b", 2)], many) == [_gap("1a", "1b", 2)]


def test_a_gap_elsewhere_is_another_one():
    assert gaps.beyond([_gap("0b", "0c", 2)], [_gap("0a", "0c", 3)]) == [_gap("0b", "0c", 2)]


def test_short_lives_are_gaps_of_their_own():
    """Gone before the batch was planned, or between planning and reading; after an expired start, the rest of it."""
    short = structs.replace(EXPIRED, rows=5, total=20, start_total=12, gap=None)
    [gap] = gaps.of(Offsets(topics={"a/t": short}), on_expired="gap", missing={"a/t": 2})
    assert (gap.from_position, gap.to_position, gap.rows) == ("0a", "0f", 5)
    both = structs.replace(short, gap=EXPIRED.gap)
    found = gaps.of(Offsets(topics={"a/t": both}), on_expired="gap", missing={"a/t": 2})
    assert [(gap.from_position, gap.to_position, gap.rows) for gap in found] == [("0a", "0c", 3), ("0c", "0f", 2)]
    assert gaps.of(Offsets(topics={"a/t": both}), on_expired="count", missing={"a/t": 2}) == []


def test_a_batch_tried_again_adds_what_expired_meanwhile():
    before = _gap("0a", "0f", 2)
    assert gaps.beyond([replace(before, rows=5)], [before]) == [replace(before, rows=3)]
    assert gaps.beyond([before], [before]) == []


def test_what_went_with_its_topic_is_a_gap_under_any_policy():
    place = structs.replace(EXPIRED, rows=5, total=10, start_total=5, gap=None)
    [gap] = gaps.of(Offsets(topics={"a/t": place}), on_expired="count", recreated={"a/t": 4})
    assert (gap.reason, gap.from_position, gap.to_position, gap.rows) == ("recreated", "0a", "0f", 4)


@pytest.mark.parametrize("policy", ["count", "gap"])
def test_an_expired_start_goes_on_and_says_how_much_is_gone(policy):
    assert gaps.expired("a/t", "0a", "0c", 7, policy) == Gap(reason="expired", upto="0c", rows=7)


def test_what_expires_meanwhile_is_added():
    known = Gap(reason="expired", upto="0c", rows=7)
    assert gaps.further(None, known) == known
    assert gaps.further(known, Gap(reason="expired", upto="0e", rows=2)) == Gap(reason="expired", upto="0e", rows=9)
    assert gaps.further(known, Gap(reason="expired", upto="0e")) == Gap(reason="expired", upto="0e")


def test_an_expired_start_stops_under_fail():
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_OFFSET_EXPIRED: a/t: .*0a.*0c.*on_expired"):
        gaps.expired("a/t", "0a", "0c", 7, "fail")


def test_a_recreated_topic_is_read_from_its_beginning_when_asked():
    after = gaps.recreated("a/t", TopicOffset.at(1, "0a"), 2, "restart")
    assert after == TopicOffset(
        generation=2, position="", start_generation=1, start_position="0a", start_total=0, gap=Gap(reason="recreated")
    )


def test_a_recreated_topic_stops_by_default():
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_TOPIC_RECREATED: a/t .*on_recreated"):
        gaps.recreated("a/t", TopicOffset.at(1, "0a"), 2, "fail")


def test_a_topic_seen_for_the_first_time_is_no_loss():
    assert gaps.recreated("a/t", TopicOffset(), 4, "fail") == TopicOffset.at(4, "")


def test_another_service_behind_the_same_address_is_refused():
    assert gaps.same_service("", "s1") == "s1"
    assert gaps.same_service("s1", "s1") == "s1"
    with pytest.raises(errors.Stop, match=errors.OTHER_SERVICE):
        gaps.same_service("s1", "s2")
