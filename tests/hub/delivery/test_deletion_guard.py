"""The deletion guard: too many removals at once stop, and nothing but the right id lets them go."""

import pytest

from fairlead_hub.delivery.deletion_guard import DeletionGuard
from fairlead_hub.settings import DeletionGuardSettings as Limits


@pytest.fixture
def news():
    return set()


@pytest.fixture
def guard(news):
    return DeletionGuard("edge-1", Limits(removals_max=3, window_seconds=60), news=news, text=lambda now: f"t{now:g}")


def going(guard, keys, now=0.0):
    """Which of these may be removed now."""
    return [key for key in keys if not guard.blocked(key, now)]


def test_a_few_removals_go(guard, news):
    """As many as allowed; nothing is reported."""
    guard.set_due({"a", "b", "c"})
    assert going(guard, "abc") == ["a", "b", "c"]
    assert guard.tripped is None and news == set()


def test_one_more_and_none_goes(guard, news):
    """Not even the first: it is not known which of them are meant."""
    guard.set_due(set("abcd"))
    assert going(guard, "abcd") == []
    assert guard.stops and guard.count == 4 and news == {"edge-1"}
    assert "4 deletions are due, more than 3 within 60 s: a SyncRule, a label" in guard.why
    assert guard.why.index("restore it") < guard.why.index("fairlead approve edge-1")
    assert f"approve-deletions={guard.tripped.id}" in guard.why


def test_removals_that_come_one_by_one_count_together(guard):
    """A namespace that is wiped is a stream of deletes: what went within the window counts."""
    for number, key in enumerate("abcd"):
        guard.add(key)
        if going(guard, key, float(number)):
            guard.drop(key)
    assert guard.stops and guard.due == {"d"}


def test_removals_spread_over_time_are_daily_business(guard):
    """The window forgets; memory is bounded with it."""
    for number in range(20):
        guard.add(f"k{number}")
        assert going(guard, [f"k{number}"], number * 30.0)
        guard.drop(f"k{number}")
    assert len(guard._sent) <= 3


def test_a_retried_removal_counts_once(guard):
    """Its ack was late, three times."""
    guard.set_due({"a"})
    assert [going(guard, "a", now) for now in (0.0, 5.0, 10.0, 15.0)] == [["a"]] * 4


def test_only_its_own_id_approves_and_only_once(guard):
    """What was due may go; what comes later is counted again, under a new id."""
    guard.set_due(set("abcd"))
    going(guard, "abcd")
    first = guard.tripped.id
    assert not guard.approve("other") and guard.stops
    assert guard.approve(first) and not guard.approve(first)
    assert going(guard, "abcd", 1.0) == list("abcd") and not guard.stops
    for key in "abcd":
        guard.drop(key)
    assert not guard.tripped and not guard.approved
    guard.set_due(set("efgh"))
    assert going(guard, "efgh", 2.0) == [] and guard.tripped.id != first
    assert not guard.approve(first)


def test_a_wrong_id_is_named_with_the_right_one(guard, news):
    """Until it is taken back or corrected; it is news once."""
    guard.set_due(set("abcd"))
    going(guard, "abcd")
    right, plain = guard.tripped.id, guard.why
    news.clear()
    assert not guard.approve("3f0c91aa") and news == {"edge-1"}
    assert guard.why == f"{plain} (the annotation has '3f0c91aa', which approves nothing)" and right in plain
    news.clear()
    assert not guard.approve("3f0c91aa") and not news
    assert not guard.approve("") and guard.why == plain and news == {"edge-1"}
    guard.approve("x" * 1000)
    assert len(guard.why) < 400
    assert guard.approve(right) and guard.why.endswith(right)


def test_a_mistake_that_follows_an_approval_trips_it_while_the_first_removals_still_go(guard):
    """The approval was for what was due then."""
    guard.set_due(set("abcd"))
    going(guard, "abcd")
    first = guard.tripped.id
    guard.approve(first)
    guard.set_due(set("abcdefgh"))
    assert going(guard, "efgh", 1.0) == [] and guard.stops and guard.tripped.id != first
    assert going(guard, "abcd", 1.0) == list("abcd")


def test_a_mistake_that_is_mended_ends_it(guard, news):
    """The rule is back, nothing is left to remove."""
    guard.set_due(set("abcd"))
    going(guard, "abcd")
    guard.set_due(set())
    assert guard.tripped is None and going(guard, "a", 100.0) == ["a"]


def test_the_same_mistake_later_has_another_id(guard):
    """An annotation that was left behind approves nothing."""
    ids = []
    for now in (0.0, 100.0):
        guard.set_due(set("abcd"))
        guard.blocked("a", now)
        ids.append(guard.tripped.id)
        guard.set_due(set())
    assert ids[0] != ids[1]


def test_an_approval_before_it_is_known_what_is_due_is_for_what_is_due_then(guard):
    """A hub that starts reads id and approval first, and compares with the node's store afterwards."""
    guard.set_due(set("abcd"))
    going(guard, "abcd")
    reborn = DeletionGuard("edge-1", Limits(removals_max=3), news=set(), text=str)
    reborn.tripped = guard.tripped
    assert reborn.stops and reborn.count == 4
    assert reborn.approve(guard.tripped.id)
    reborn.set_due(set("bcd") | set("xyz"))
    assert going(reborn, "bcdxyz") == list("bcdxyz")
