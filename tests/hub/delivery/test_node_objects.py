"""One node's objects: what is offered, and what an answer makes of them.  ``test_deliveries`` plays the messages."""

import pytest
from tests.hub.delivery.test_deliveries import POLICY, Cluster, key_of, made

from fairlead_hub.delivery.delivery_events import AckedByEdge, Parked, Recovered, RemovedAtEdge
from fairlead_hub.delivery.in_flight import InFlightMessage
from fairlead_hub.delivery.keys.key_state import (
    IN_SYNC,
    Backoff,
    Cause,
    ImpossibleTransition,
    KeyInFlight,
    Queued,
    Withheld,
)
from fairlead_hub.delivery.node_objects import NodeObjects
from fairlead_hub.settings import Reconcile

A = key_of("a")


@pytest.fixture
def placed():
    return Cluster()


@pytest.fixture
def objects(placed):
    return NodeObjects("edge-1", placed, reconcile=Reconcile(), guard=None)


def message_about(one):
    return InFlightMessage(key=one.key, uid=one.uid, path=one.path, held=one.held, policy=POLICY)


def send(objects, one, id=1):
    """As ``Deliveries`` does: the key is in flight."""
    sent = message_about(one)
    objects.unsynced.move(one.key, "sent", KeyInFlight(id, sent), 0.0)
    return sent


def test_differences_come_before_what_only_has_a_record(objects, placed):
    """Wanted ones first, unwanted ones by name, then keys that are looked at again; only the first are counted."""
    kept, gone, new = made("kept", "1"), made("gone", "1"), made("new", "1")
    objects.begin({one.key: one.held for one in (kept, gone)})
    placed.objects = {kept.key: kept, new.key: new}
    assert objects.differences() == ([new.key, gone.key], 2)
    objects.unsynced.move(kept.key, "offered", Queued(5), 0.0)
    assert objects.differences() == ([new.key, gone.key, kept.key], 2)


def test_an_offer_of_what_the_node_holds_is_nothing(objects, placed):
    """No record, no queue; and a key that waited is in sync when what is wanted changed back."""
    placed.objects[A] = made("a", "1")
    objects.begin({A: placed.objects[A].held})
    objects.offer(A, 0.0)
    assert objects.unsynced.state(A) == IN_SYNC
    placed.objects[A] = made("a", "2")
    objects.offer(A, 0.0)
    assert objects.unsynced.state(A) == Queued(5)
    placed.objects[A] = made("a", "1")
    objects.offer(A, 0.0)
    assert objects.unsynced.state(A) == IN_SYNC and objects.take_events() == []


def test_a_new_object_under_an_old_name_removes_the_old_one(objects, placed):
    """The edge replaced it in one commit: its status goes before the new one's comes."""
    old, new = made("a", "1", uid="old"), made("a", "2", uid="new")
    objects.begin({A: old.held})
    objects.stored(message_about(new), 0.5)
    removed, acked = objects.take_events()
    assert isinstance(removed, RemovedAtEdge) and removed.uid == "old"
    assert isinstance(acked, AckedByEdge) and (acked.held.uid, acked.seconds) == ("new", 0.5)
    assert objects.held == {A: new.held}


def test_a_failure_waits_and_the_last_one_parks(objects, placed):
    """Retries are of this content; something newer begins with all of them."""
    placed.objects[A] = made("a", "1")
    objects.offer(A, 0.0)
    for retry in (1, 2):
        objects.failed(send(objects, placed.objects[A]), "busy", "no", 0.0, permanent=False, after=None)
        state = objects.unsynced.state(A)
        assert isinstance(state, Backoff) and state.retry == retry
        [due] = objects.unsynced.due(state.due)
        objects.unsynced.move(due, "due", Queued(5), state.due)
    objects.failed(send(objects, placed.objects[A]), "busy", "no", 0.0, permanent=False, after=None)
    parked = objects.unsynced.state(A)
    assert isinstance(parked, Parked) and parked.content_id == placed.objects[A].content_id
    placed.objects[A] = made("a", "2")
    objects.offer(A, 1.0)
    record = objects.unsynced.get(A)
    assert record.state == Queued(5) and record.failures is None


def test_what_was_reported_as_late_is_reported_again_when_that_is_over(objects, placed):
    """Kept, and then wanted again: the status says so without a message."""
    one = made("a", "1")
    objects.begin({A: one.held})
    objects.offer(A, 0.0)
    objects.keep(A, Withheld(Cause.DELETION_BLOCKED, "not listed"), 0.0)
    objects.reported(A, one.uid, one.path)
    placed.objects[A] = one
    objects.offer(A, 1.0)
    assert objects.take_events() == [Recovered(key=A)] and objects.unsynced.state(A) == IN_SYNC


def test_a_transition_that_is_none_is_refused(objects):
    """A mistake in this program, found where it is made."""
    with pytest.raises(ImpossibleTransition):
        objects.unsynced.move(A, "sent", KeyInFlight(1, message_about(made("a", "1"))), 0.0)
