"""The brake: too many removals at once stop, and nothing but the right id lets them go."""

import pytest

from fairlead_hub.delivery.deletion_guard import DeletionGuard
from fairlead_hub.settings import DeletionGuard as Limits


@pytest.fixture
def news():
    return set()


@pytest.fixture
def brake(news):
    return DeletionGuard("edge-1", Limits(removals_max=3, window_seconds=60), news=news, text=lambda now: f"t{now:g}")


def going(brake, keys, now=0.0):
    """Which of these may be removed now."""
    return [key for key in keys if not brake.objection(key, now)]


def test_a_few_removals_go(brake, news):
    """As many as allowed; nobody hears of it."""
    brake.set_due({"a", "b", "c"})
    assert going(brake, "abc") == ["a", "b", "c"]
    assert brake.engaged is None and news == set()


def test_one_more_and_none_goes(brake, news):
    """Not even the first: it is not known which of them are meant."""
    brake.set_due(set("abcd"))
    assert going(brake, "abcd") == []
    assert brake.stops and brake.count == 4 and news == {"edge-1"}
    assert "4 deletions are due, more than 3" in brake.why and f"approve-deletions={brake.engaged.id}" in brake.why


def test_removals_that_come_one_by_one_count_together(brake):
    """A namespace that is wiped is a stream of deletes: what went within the window counts."""
    for number, key in enumerate("abcd"):
        brake.add(key)
        if going(brake, key, float(number)):
            brake.drop(key)
    assert brake.stops and brake.due == {"d"}


def test_removals_spread_over_time_are_daily_business(brake):
    """The window forgets; memory is bounded with it."""
    for number in range(20):
        brake.add(f"k{number}")
        assert going(brake, [f"k{number}"], number * 30.0)
        brake.drop(f"k{number}")
    assert len(brake._sent) <= 3


def test_a_retried_removal_counts_once(brake):
    """Its ack was late, three times."""
    brake.set_due({"a"})
    assert [going(brake, "a", now) for now in (0.0, 5.0, 10.0, 15.0)] == [["a"]] * 4


def test_only_the_id_of_this_brake_releases_it_and_only_once(brake):
    """What was due may go; what comes later is counted again, under a new id."""
    brake.set_due(set("abcd"))
    going(brake, "abcd")
    first = brake.engaged.id
    assert not brake.release("other") and brake.stops
    assert brake.release(first) and not brake.release(first)
    assert going(brake, "abcd", 1.0) == list("abcd") and not brake.stops
    for key in "abcd":
        brake.drop(key)
    assert brake.engaged is None and not brake.released
    brake.set_due(set("efgh"))
    assert going(brake, "efgh", 2.0) == [] and brake.engaged.id != first
    assert not brake.release(first)


def test_a_mistake_that_follows_a_release_is_braked_while_the_first_removals_still_go(brake):
    """The release was for what was due then."""
    brake.set_due(set("abcd"))
    going(brake, "abcd")
    first = brake.engaged.id
    brake.release(first)
    brake.set_due(set("abcdefgh"))
    assert going(brake, "efgh", 1.0) == [] and brake.stops and brake.engaged.id != first
    assert going(brake, "abcd", 1.0) == list("abcd")


def test_a_mistake_that_is_mended_ends_the_brake(brake, news):
    """The rule is back, nothing is left to remove."""
    brake.set_due(set("abcd"))
    going(brake, "abcd")
    brake.set_due(set())
    assert brake.engaged is None and going(brake, "a", 100.0) == ["a"]


def test_the_same_mistake_later_has_another_id(brake):
    """An annotation that was left behind releases nothing."""
    ids = []
    for now in (0.0, 100.0):
        brake.set_due(set("abcd"))
        brake.objection("a", now)
        ids.append(brake.engaged.id)
        brake.set_due(set())
    assert ids[0] != ids[1]


def test_a_release_before_it_is_known_what_is_due_holds_for_what_is_due_then(brake):
    """A hub that starts reads id and release first, and compares with the node's store afterwards."""
    brake.set_due(set("abcd"))
    going(brake, "abcd")
    reborn = DeletionGuard("edge-1", Limits(removals_max=3), news=set(), text=str)
    reborn.engaged = brake.engaged
    assert reborn.stops and reborn.count == 4
    assert reborn.release(brake.engaged.id)
    reborn.set_due(set("bcd") | set("xyz"))
    assert going(reborn, "bcdxyz") == list("bcdxyz")
