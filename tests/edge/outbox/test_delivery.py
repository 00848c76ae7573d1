"""The agent's own delivery policies."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from fairlead_edge.outbox.brokered import priority
from fairlead_edge.outbox.delivery import BROKERED_POLICY, UPSTREAM_POLICY, BrokeredDelivery, UpstreamDelivery
from fairlead_edge.outbox.pump import stream
from fairlead_wire import delivery_policy
from fairlead_wire.delivery_policy import schedule, total_seconds
from fairlead_wire.errors import LocalError


@pytest.mark.slow
def test_messages_go_again_practically_without_end() -> None:
    waits = [delivery_policy.delay(UPSTREAM_POLICY, retry) for retry in range(9)]
    assert [each and round(each.seconds) for each in waits] == [1, 2, 4, 8, 15, 30, 60, 60, 60]
    assert delivery_policy.total_seconds(delivery_policy.schedule(UPSTREAM_POLICY)) > 30 * 86_400
    assert UpstreamDelivery() == UPSTREAM_POLICY


def test_default_tries_for_a_day() -> None:
    """Long enough to repair a module; after that its messages do not block the store."""
    delays = schedule(BROKERED_POLICY)
    assert [round(each.seconds) for each in delays[:5]] == [0, 1, 2, 4, 8]
    assert 86_400 <= total_seconds(delays) <= 87_000


def test_what_is_not_given_is_the_default_of_modules() -> None:
    policy = msgspec.convert({"maximum_delay_retries": 0}, BrokeredDelivery)
    assert len(schedule(policy)) == 8
    with pytest.raises(msgspec.ValidationError, match="maximum_delay"):
        msgspec.convert({"maximum_delay": 0.5}, BrokeredDelivery)


@pytest.mark.parametrize(
    ("transitions", "states", "events"),
    [
        (stream.TRANSITIONS, stream.EndpointState, stream.EndpointEvent),
        (priority.TRANSITIONS, priority.DeliveryState, priority.DeliveryEvent),
    ],
)
def test_a_transition_that_the_table_lacks_fails_loudly(transitions: Any, states: Any, events: Any) -> None:
    for state, event in itertools.product(states, events):
        if (following := transitions.get((state, event))) is not None:
            assert transitions.step(state, event) is following
        else:
            with pytest.raises(LocalError, match=f"{state.value}.* cannot handle .{event.value}"):
                transitions.step(state, event)
