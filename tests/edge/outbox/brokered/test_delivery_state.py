"""The states of one message on its way to a module."""

from __future__ import annotations

import pytest

from fairlead_edge.outbox.brokered.delivery_state import TRANSITIONS, Event, State, step
from fairlead_wire.errors import LocalError


def test_what_is_over_takes_nothing_more() -> None:
    """Done and dead are ends; nothing begins but by being taken."""
    assert not [state for state, _ in TRANSITIONS if state in (State.DONE, State.DEAD)]
    assert [event for state, event in TRANSITIONS if state is State.WAITING] == [Event.TAKE]
    with pytest.raises(LocalError, match="done takes no take"):
        step(State.DONE, Event.TAKE)


def test_late_acknowledgement_counts() -> None:
    """Also while it waits for its next attempt."""
    state = State.WAITING
    for event in (Event.TAKE, Event.RETRY, Event.TAKE, Event.RETRY, Event.ACK):
        state = step(state, event)
    assert state is State.DONE
