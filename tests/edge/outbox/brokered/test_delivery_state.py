"""The states of one message on its way to a module."""

from __future__ import annotations

import pytest

from fairlead_edge.outbox.brokered.priority import TRANSITIONS, DeliveryEvent, DeliveryState
from fairlead_wire.errors import LocalError


def test_what_is_over_takes_nothing_more() -> None:
    """Done and dead are ends; nothing begins but by being taken."""
    assert not [state for state, _ in TRANSITIONS if state in (DeliveryState.DONE, DeliveryState.DEAD)]
    assert [event for state, event in TRANSITIONS if state is DeliveryState.WAITING] == [DeliveryEvent.TAKE]
    with pytest.raises(LocalError, match="cannot handle"):
        TRANSITIONS.step(DeliveryState.DONE, DeliveryEvent.TAKE)


def test_late_acknowledgement_counts() -> None:
    """Also while it waits for its next attempt."""
    state = DeliveryState.WAITING
    for event in (DeliveryEvent.TAKE, DeliveryEvent.RETRY, DeliveryEvent.TAKE, DeliveryEvent.RETRY, DeliveryEvent.ACK):
        state = TRANSITIONS.step(state, event)
    assert state is DeliveryState.DONE
