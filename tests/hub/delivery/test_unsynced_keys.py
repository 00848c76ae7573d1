"""One record for each key that is not in sync; everything else is an index over the records."""

import itertools
from functools import partial
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_hub.cluster.content import ContentId, HeldCopy
from fairlead_hub.delivery import key_state
from fairlead_hub.delivery.delivery_events import Parked
from fairlead_hub.delivery.in_flight import InFlightMessage
from fairlead_hub.delivery.key_state import (
    IN_SYNC,
    NAMES,
    TRANSITIONS,
    BackingOff,
    Cause,
    Event,
    ImpossibleTransition,
    InSync,
    KeyInFlight,
    Queued,
    Recorded,
    State,
    Withheld,
)
from fairlead_hub.delivery.unsynced_keys import UnsyncedKeys
from fairlead_hub.settings import NodeDelivery

ONE = ContentId("u", "1")
SENT = InFlightMessage(key="k", uid="u", path="p", held=HeldCopy("p", "u", "1", "1"), policy=NodeDelivery())
GUARD = Withheld(Cause.DELETION_GUARD, "too many")
UNGRANTED = Withheld(Cause.NOT_GRANTED, "no topics")


def parked(key, due):
    return Parked(key=key, content_id=ONE, path="p", code="no", reason="", retries=0, next_retry_at=due)


AFTER: dict[type[State], st.SearchStrategy[Any]] = {
    InSync: st.just(IN_SYNC),
    Queued: st.builds(Queued, st.integers(0, 2)),
    KeyInFlight: st.builds(KeyInFlight, st.integers(1, 9), st.just(SENT), st.none() | st.integers(0, 2)),
    BackingOff: st.builds(BackingOff, st.integers(0, 50), st.integers(1, 3)),
    Parked: st.builds(parked, st.just("k"), st.integers(0, 50)),
    Withheld: st.sampled_from([GUARD, UNGRANTED]),
}


@pytest.fixture
def keys():
    return UnsyncedKeys()


def test_a_key_in_sync_has_nothing(keys):
    """Before it was offered, and after it matched."""
    assert (keys.get("a"), keys.state("a"), len(keys)) == (None, IN_SYNC, 0)
    keys.move("a", "offered", Queued(5), 1.0)
    assert keys.state("a") == Queued(5) and keys.get("a").since == keys.oldest() == 1.0
    keys.matched("a")
    assert (keys.get("a"), list(keys), keys.oldest(), keys.first_queued()) == (None, [], None, None)


def test_an_impossible_transition_changes_nothing(keys):
    """It raises, and the key is where it was."""
    keys.move("a", "offered", Queued(5), 1.0)
    with pytest.raises(ImpossibleTransition, match="a: QUEUED cannot become BACKOFF when failed"):
        keys.move("a", "failed", BackingOff(9.0, 1), 2.0)
    assert keys.state("a") == Queued(5) and keys.first_queued() == "a" and keys.next_due() is None
    with pytest.raises(ImpossibleTransition):
        keys.matched("b")
    assert list(keys) == ["a"]


@pytest.mark.parametrize("before", AFTER, ids=lambda kind: NAMES[kind])
def test_what_the_table_does_not_say_is_impossible(before):
    """Every event with every state after it: the table's go, all others raise and change nothing."""
    ways: dict[type[State], tuple[Event, ...]]
    ways = {
        InSync: (),
        Queued: ("offered",),
        KeyInFlight: ("offered", "sent"),
        BackingOff: ("offered", "sent", "failed"),
    }
    ways |= {Parked: ("offered", "gave up"), Withheld: ("offered", "withheld")}
    samples: dict[type[State], Recorded]
    samples = {Queued: Queued(5), KeyInFlight: KeyInFlight(1, SENT), BackingOff: BackingOff(9.0, 1), Withheld: GUARD}
    samples[Parked] = parked("a", 9.0)
    for event, after in itertools.product(get_args(Event), samples):
        keys = UnsyncedKeys()
        for way in ways[before]:
            keys.move("a", way, samples[TRANSITIONS[type(keys.state("a"))][way]], 0.0)
        stood = keys.state("a")
        if TRANSITIONS[before].get(event) is after:
            keys.move("a", event, samples[after], 1.0)
            assert keys.state("a") == samples[after]
        else:
            with pytest.raises(ImpossibleTransition, match=f"a: {NAMES[before]} cannot become {NAMES[after]}"):
                keys.move("a", event, samples[after], 1.0)
            assert keys.state("a") == stood


def test_since_when_it_is_on_its_way_lasts_until_it_stops(keys):
    """Through sends and retries; what was parked is late from its next try on, and goes behind the others."""
    keys.move("a", "offered", Queued(5), 1.0)
    keys.move("b", "offered", Queued(5), 2.0)
    keys.move("a", "sent", KeyInFlight(1, SENT), 3.0)
    keys.move("a", "failed", BackingOff(9.0, 1), 4.0)
    assert keys.get("a").since == keys.oldest() == 1.0
    keys.move("a", "due", Queued(5), 9.0)
    keys.move("a", "gave up", parked("a", 69.0), 9.0)
    assert keys.oldest() == 2.0 and list(keys.stopped) == ["a"]
    keys.move("a", "due", Queued(5), 69.0)
    assert list(keys.pending) == ["b", "a"] and keys.get("a").since == 69.0


def test_what_is_kept_and_what_is_not_granted_are_different(keys):
    """The one is a deletion that waits for people, the other is late."""
    for key, state in (("a", GUARD), ("b", UNGRANTED), ("c", None)):
        keys.move(key, "offered", Queued(5), 1.0)
        if state is not None:
            keys.move(key, "withheld", state, 1.0)
    assert (keys.kept(), keys.withheld(), keys.parked()) == ({"a": GUARD}, {"b": UNGRANTED}, {})
    assert keys.one_kept() == (("a", "too many"),)
    assert (keys.kept_count, keys.count(Withheld), keys.count(Queued)) == (1, 2, 1)
    assert list(keys.pending) == ["b", "c"]


def test_retries_and_parked_keys_are_due_in_one_order(keys):
    """A key that was offered meanwhile is not due any more."""
    for key in "abc":
        keys.move(key, "offered", Queued(5), 0.0)
        keys.move(key, "sent", KeyInFlight(1, SENT), 0.0)
    keys.move("a", "gave up", parked("a", 3.0), 0.0)
    keys.move("b", "failed", BackingOff(2.0, 1), 0.0)
    keys.move("c", "failed", BackingOff(1.0, 1), 0.0)
    keys.move("c", "offered", Queued(5), 0.5)
    assert keys.next_due() == 2.0
    assert keys.due(5.0) == ["b", "a"]


MOVE = st.tuples(st.sampled_from("abcd"), st.sampled_from(get_args(Event)), st.one_of(*AFTER.values()))


@pytest.mark.slow
@given(st.lists(MOVE, max_size=60))
def test_the_indexes_say_what_the_records_say(moves):
    """After any moves: the possible ones are done, and every index is what counting the records would give."""
    keys, since = UnsyncedKeys(), {}
    model: dict[str, State] = {}
    for now, (key, event, after) in enumerate(moves):
        before = model.get(key, IN_SYNC)
        go = partial(keys.matched, key) if after is IN_SYNC else partial(keys.move, key, event, after, now)
        if TRANSITIONS[type(before)].get("matched" if after is IN_SYNC else event) is not type(after):
            with pytest.raises(ImpossibleTransition):
                go()
            continue
        go()
        model[key] = after
        if before is IN_SYNC or key_state.is_pending(before) is not key_state.is_pending(after):
            since[key] = now
        if after is IN_SYNC:
            del model[key]
        assert {each: record.state for each, record in keys.records()} == model
        assert {each: record.since for each, record in keys.records()} == {each: since[each] for each in model}
        assert set(keys.pending) == {each for each, state in model.items() if key_state.is_pending(state)}
        assert [record.since for record in keys.pending.values()] == sorted(since[each] for each in keys.pending)
        for kind in get_args(Recorded):
            assert keys.count(kind) == sum(type(state) is kind for state in model.values())
        queued = {each: state.priority for each, state in model.items() if isinstance(state, Queued)}
        first = keys.first_queued()
        assert (first is None) is not bool(queued)
        assert first is None or queued[first] == min(queued.values())
        due = [state.due for state in model.values() if isinstance(state, BackingOff)]
        due += [state.next_retry_at for state in model.values() if isinstance(state, Parked)]
        assert keys.next_due() == min(due, default=None)
