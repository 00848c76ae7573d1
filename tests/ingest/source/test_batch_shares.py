"""What quiet topics leave of a batch goes to busy ones."""

from __future__ import annotations

from fairlead_ingest.source import batch_size
from fairlead_ingest.source.batch_size import Used


def used(rows: int, *, has_more: bool = False) -> Used:
    return Used(rows=rows, size_bytes=rows * 10, has_more=has_more)


def test_one_busy_topic_gets_what_ninety_nine_quiet_ones_leave() -> None:
    """The whole batch, in one round."""
    topics = {"hot": used(10, has_more=True), **{f"quiet-{number}": used(0) for number in range(99)}}
    assert batch_size.larger_limits(topics, 1000, None) == {"hot": (1000, None)}
    assert batch_size.larger_limits(topics, 1000, 10_000) == {"hot": (1000, 10_000)}


def test_several_share_what_is_left_and_none_loses_its_own() -> None:
    """Those that have no more keep what they took."""
    topics = {"a": used(100, has_more=True), "b": used(100, has_more=True), "c": used(20)}
    assert batch_size.larger_limits(topics, 300, None) == {"a": (140, None), "b": (140, None)}


def test_a_batch_that_is_full_or_nearly_is_not_planned_again() -> None:
    """By rows or by bytes, whichever is first; and nothing is asked where no topic has more."""
    hot = {"hot": used(90, has_more=True)}
    assert batch_size.larger_limits(hot, 100, None) == {}
    assert batch_size.larger_limits(hot, 1000, 900) == {}
    assert batch_size.larger_limits({"hot": used(1)}, 1000, None) == {}
    assert batch_size.larger_limits({}, 1000, None) == {}


def test_without_limits_nothing_is_shared_out() -> None:
    """All is taken at once, so no topic has more."""
    assert batch_size.larger_limits({"hot": used(5)}, None, None) == {}


def test_a_batch_that_turns_out_too_large_is_cut_where_there_is_more() -> None:
    """Those that are up to date keep what they took."""
    topics = {"live": used(30), "a": used(500, has_more=True), "b": used(500, has_more=True)}
    assert batch_size.smaller_limits(topics, 130) == {"a": (50, 5000), "b": (50, 5000)}
    assert batch_size.smaller_limits(topics, 20) == {"a": (1, 5000), "b": (1, 5000)}
    assert batch_size.smaller_limits(topics, 1030) == {}
    assert batch_size.smaller_limits(topics, None) == {}
