"""What is missing is counted, noted or a reason to stop; never passed over."""

from __future__ import annotations

import pytest

from fairlead_ingest import errors
from fairlead_ingest.source import gaps
from fairlead_ingest.source.offsets import Gap, TopicOffset


@pytest.mark.parametrize("policy", ["count", "gap"])
def test_an_expired_start_goes_on_and_says_how_much_is_gone(policy: str) -> None:
    """The service knows how many rows that were."""
    assert gaps.expired("a/t", "0a", "0c", 7, policy) == Gap(reason="expired", upto="0c", rows=7)


def test_what_expires_meanwhile_is_added() -> None:
    """One jump, over both."""
    known = Gap(reason="expired", upto="0c", rows=7)
    assert gaps.further(None, known) == known
    assert gaps.further(known, Gap(reason="expired", upto="0e", rows=2)) == Gap(reason="expired", upto="0e", rows=9)
    assert gaps.further(known, Gap(reason="expired", upto="0e")) == Gap(reason="expired", upto="0e")


def test_an_expired_start_stops_under_fail() -> None:
    """The sentence names topic, place and the way out."""
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_OFFSET_EXPIRED: a/t: .*0a.*0c.*on_expired"):
        gaps.expired("a/t", "0a", "0c", 7, "fail")


def test_a_recreated_topic_is_read_from_its_beginning_when_asked() -> None:
    """Where the old one was left stays known, for the gap row."""
    after = gaps.recreated("a/t", TopicOffset.at(1, "0a"), 2, "restart")
    assert after == TopicOffset(
        generation=2, position="", start_generation=1, start_position="0a", start_total=0, gap=Gap(reason="recreated")
    )


def test_a_recreated_topic_stops_by_default() -> None:
    """Somebody deleted it: somebody decides."""
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_TOPIC_RECREATED: a/t .*on_recreated"):
        gaps.recreated("a/t", TopicOffset.at(1, "0a"), 2, "fail")


def test_a_topic_seen_for_the_first_time_is_no_loss() -> None:
    """It was not there yet when the job began."""
    assert gaps.recreated("a/t", TopicOffset(), 4, "fail") == TopicOffset.at(4, "")


def test_another_service_behind_the_same_address_is_refused() -> None:
    """Positions of one service mean nothing to another."""
    assert gaps.same_service("", "s1") == "s1"
    assert gaps.same_service("s1", "s1") == "s1"
    with pytest.raises(errors.Stop, match=errors.OTHER_SERVICE):
        gaps.same_service("s1", "s2")
