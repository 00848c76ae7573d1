"""The states of a priority: the table is what is drawn, each transition is taken, and others fail loudly."""

from __future__ import annotations

import itertools
import math

import pytest

from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.pump import endpoint_state, stream
from fairlead_edge.outbox.pump.effects import Fetch, SendBatch, Settle
from fairlead_edge.outbox.pump.endpoint_state import TRANSITIONS, EndpointEvent, EndpointState, step
from fairlead_edge.outbox.pump.pump import Pump
from fairlead_edge.outbox.queue_id import QueueId
from fairlead_edge.routes.sink import UPSTREAM
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.errors import LocalError
from fairlead_wire.message import Ack, Deferred, Nack

ONE_RETRY = DeliveryPolicy(
    retries_with_no_delay=0, minimum_delay_retries=0, minimum_delay=1, maximum_delay=1, backoff_retries=0,
    maximum_delay_retries=1,
)  # fmt: skip
"""One second, then dead."""


@pytest.mark.parametrize(("state", "event"), list(itertools.product(EndpointState, EndpointEvent)))
def test_an_impossible_transition_fails_loudly(state: EndpointState, event: EndpointEvent) -> None:
    """Code that takes it has lost track of the state."""
    if (following := TRANSITIONS.get((state, event))) is not None:
        assert step(state, event) is following
    else:
        with pytest.raises(LocalError, match=f"{state.value} takes no {event.value}"):
            step(state, event)


def test_the_drawing_has_every_state_and_event() -> None:
    """In the module's first lines."""
    drawn = endpoint_state.__doc__ or ""
    assert [name.name for name in (*EndpointState, *EndpointEvent) if name.name not in drawn] == []


class Driver:
    """A pump over one endless queue: what is sent is answered as the test says."""

    def __init__(self) -> None:
        self.pump = Pump(UPSTREAM, policy=ONE_RETRY, uniform=lambda: 0.5)
        self.pump.found(QueueId(UPSTREAM, 0), -1)
        self.pump.link_up(8)

    def go(self, now: float) -> SendBatch | Settle | None:
        fetch = self.pump.next(now)
        assert isinstance(fetch, Fetch)
        items = [Item(fetch.after + each, 1, "t", 0.0, None, b"x") for each in range(1, fetch.messages_max + 1)]
        return self.pump.fetched(fetch, items, now)

    def send(self, now: float) -> int:
        effect = self.go(now)
        assert isinstance(effect, SendBatch)
        return effect.batch

    def ack(self, batch: int, now: float) -> None:
        settle = self.pump.answered(batch, Ack(parent_id=batch), now)
        assert settle is not None
        self.pump.settled(settle.batch)

    def defer(self, batch: int, now: float) -> None:
        self.pump.answered(batch, Ack(parent_id=batch, deferred=[Deferred(index=0, code="full", reason="")]), now)

    def nack(self, batch: int, now: float) -> None:
        self.pump.answered(batch, Nack(parent_id=batch, code="busy", reason="later"), now)


def test_every_transition_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nothing takes is deleted."""
    taken: set[tuple[EndpointState, EndpointEvent]] = set()

    def recorded(state: EndpointState, event: EndpointEvent) -> EndpointState:
        taken.add((state, event))
        return step(state, event)

    monkeypatch.setattr(stream, "step", recorded)
    line = Driver()
    line.ack(line.send(0), 0)
    line.ack(line.send(0), 0)
    first, second = line.send(0), line.send(0)  # the depth has grown: two at once
    line.nack(first, 0)
    line.nack(second, 0)
    assert line.pump.state(0) is EndpointState.BACKOFF
    line.nack(line.send(1), 1)
    assert line.pump.state(0) is EndpointState.DEAD
    buried = line.go(1)
    assert isinstance(buried, Settle) and buried.refused
    line.pump.settled(buried.batch)
    alive = 1 + stream.REVIVE_SECONDS
    line.ack(line.send(alive), alive)
    lost = line.send(alive), line.send(alive)
    line.nack(lost[0], alive)
    line.pump.lost(lost[1])
    assert line.pump.state(0) is EndpointState.IDLE
    line.pump.lost(line.send(alive))
    line.defer(line.send(alive), alive)
    assert taken == set(TRANSITIONS)


def test_a_new_session_forgives_whatever_it_was() -> None:
    """A dead priority, too: the cloud on the other side may be another one."""
    line = Driver()
    line.nack(line.send(0), 0)
    line.pump.link_up(8)
    assert line.pump.state(0) is EndpointState.IDLE
    line.nack(line.send(0), 0)
    line.nack(line.send(1), 1)
    assert line.pump.state(0) is EndpointState.DEAD
    line.pump.link_up(8)
    assert line.pump.state(0) is EndpointState.IDLE and line.send(math.nextafter(1, 2)) > 0
