"""The table of what may become of a key."""

from typing import get_args

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
    KeyInFlight,
    Queued,
    Withheld,
)
from fairlead_hub.settings import NodeDelivery

ONE = ContentId("u", "1")
SENT = InFlightMessage(key="k", uid="u", path="p", held=HeldCopy("p", "u", "1", "1"), policy=NodeDelivery())
STATES = (
    IN_SYNC,
    Queued(5),
    KeyInFlight(1, SENT),
    BackingOff(1.0, 1),
    Parked(key="k", content_id=ONE, path="p", code="no", reason="", retries=0, next_retry_at=1.0),
    Withheld(Cause.NOT_GRANTED, "why"),
)


def test_every_state_has_a_row_and_a_name():
    """And every event leads somewhere."""
    assert TRANSITIONS.keys() == NAMES.keys() == {type(state) for state in STATES}
    assert {event for row in TRANSITIONS.values() for event in row} == set(get_args(Event))


def test_every_state_is_reached_and_left_for_in_sync():
    """No key stays in a state for ever, whatever happens around it."""

    def reached(start):
        found, new = {start}, {start}
        while new:
            new = {after for state in new for after in TRANSITIONS[state].values()} - found
            found |= new
        return found

    for state in TRANSITIONS:
        assert reached(state) == set(TRANSITIONS)


def test_what_is_parked_or_kept_is_not_on_its_way():
    """Only what arrives by itself counts as late."""
    on_their_way = [state for state in STATES[1:] if key_state.is_pending(state)]
    assert [type(state) for state in on_their_way] == [Queued, KeyInFlight, BackingOff, Withheld]
    assert not key_state.is_pending(Withheld(Cause.DELETION_GUARD, "too many"))
    assert not key_state.is_pending(Withheld(Cause.DELETION_BLOCKED, "not listed yet"))
