"""One priority: what packs well, what is wrong, where the checkpoint may stand, and who may change it."""

from __future__ import annotations

import ast
import itertools
import math
from pathlib import Path

import pytest

from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.pump import pump, stream
from fairlead_edge.outbox.pump.pump import Pump
from fairlead_edge.outbox.pump.stream import (
    BATCH_BYTES_MAX,
    TRANSITIONS,
    EndpointEvent,
    EndpointState,
    Fetch,
    PumpWait,
    SendBatch,
    Settle,
    Stream,
)
from fairlead_edge.outbox.queues import Checkpointer, QueueId
from fairlead_edge.routes.endpoints import UPSTREAM
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.errors import LocalError
from fairlead_wire.message import Ack, Deferred, Nack

POLICY = DeliveryPolicy(
    retries_with_no_delay=0, minimum_delay_retries=0, minimum_delay=1, maximum_delay=1, backoff_retries=0,
    maximum_delay_retries=9,
)  # fmt: skip


def make_stream() -> Stream:
    return Stream(QueueId(UPSTREAM, 5), Checkpointer(), cursor=-1)


def leaves(line: Stream, batch: int, *offsets: int) -> None:
    """A batch of these is fetched and sent."""
    items = [Item(offset, 1, "t", 0.0, None, b"x") for offset in offsets]
    assert [item.offset for item in line.fetched(line.fetch(1 << 20), items, items, 0)] == list(offsets)
    line.send(batch, offsets)


def nack(code: str, reason: str = "") -> Nack:
    return Nack(parent_id=1, code=code, reason=reason)


def test_a_batch_that_packs_badly_is_believed_at_once_and_one_that_packs_well_slowly() -> None:
    """Too much on a slow line costs the alarms; too little costs a round."""
    line = make_stream()
    assert line.fetch(4096).bytes_max == 4096 and line.frame_bytes(4096) == 4096
    line.packed(10_000, 1_000)
    assert 9_000 < line.frame_bytes(10_000) < 10_000
    for _ in range(100):
        line.packed(10_000, 1_000)
    assert 35_000 < line.fetch(4096).bytes_max < 42_000
    line.packed(10_000, 9_000)
    assert line.fetch(4096).bytes_max < 5_000
    for _ in range(200):
        line.packed(10_000_000, 1)
    assert line.fetch(1 << 30).bytes_max == BATCH_BYTES_MAX


def test_trouble_lasts_from_the_first_failure_to_the_first_success() -> None:
    line = make_stream()
    assert line.trouble() is None
    for batch, offset in ((1, 0), (2, 1), (3, 2)):
        leaves(line, batch, offset)
    line.nacked(1, nack("one", "first"), (), 3.0, None)
    line.nacked(2, nack("two", "second"), (), 9.0, None)
    trouble = line.trouble()
    assert trouble is not None and (trouble.since, trouble.code, trouble.reason) == (3.0, "two", "second")
    line.acked(3, (2,), 8, None)
    assert line.trouble() is None


def test_the_checkpoint_stays_below_what_is_not_done() -> None:
    line = make_stream()
    leaves(line, 1, 0, 1, 2)
    leaves(line, 2, 3, 4)
    leaves(line, 3, 5, 6, 7, 8, 9)
    assert line.acked(3, (5, 6, 7, 8, 9), 8, None) == -1
    assert line.acked(1, (0, 1, 2), 8, None) == 2
    line.nacked(2, nack("busy"), (), 0, None)
    assert line.conclude(POLICY, lambda: 0.5, 0)
    assert line.must_settle_first, "what is being settled lies above what goes again"
    line.settled(3)
    line.settled(1)
    assert not line.must_settle_first
    line.come_due()
    leaves(line, 4, 3, 4)
    assert line.acked(4, (3, 4), 8, None) == 4


def test_a_fetch_that_a_failure_overtook_is_void() -> None:
    line = make_stream()
    leaves(line, 1, 0)
    under_way = line.fetch(1 << 20)
    line.lost(1)
    read = [Item(1, 1, "t", 0.0, None, b"x")]
    assert line.fetched(under_way, read, read, 0) == ()
    assert line.has_more and line.fetch(1 << 20).after == -1


def test_nothing_leaves_while_answers_to_a_failure_are_out() -> None:
    line = make_stream()
    leaves(line, 1, 0)
    leaves(line, 2, 1)
    under_way = line.fetch(1 << 20)
    line.nacked(1, nack("busy"), (), 0, None)
    read = [Item(2, 1, "t", 0.0, None, b"x")]
    assert line.fetched(under_way, read, read, 0) == ()
    assert line.has_more and line.fetch(1 << 20).after == 1


def test_the_pump_writes_nothing_of_a_stream() -> None:
    written = [
        ast.unparse(node)
        for node in ast.walk(ast.parse(Path(str(pump.__file__)).read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) != "self"
    ]
    assert written == []


# ---- the states: the table is what is drawn, and each transition is taken --------------------------------------------


ONE_RETRY = DeliveryPolicy(
    retries_with_no_delay=0, minimum_delay_retries=0, minimum_delay=1, maximum_delay=1, backoff_retries=0,
    maximum_delay_retries=1,
)  # fmt: skip
"""One second, then dead."""


@pytest.mark.parametrize(("state", "event"), list(itertools.product(EndpointState, EndpointEvent)))
def test_an_impossible_transition_fails_loudly(state: EndpointState, event: EndpointEvent) -> None:
    if (following := TRANSITIONS.get((state, event))) is not None:
        assert TRANSITIONS.step(state, event) is following
    else:
        with pytest.raises(LocalError, match=f"{state.value}.* cannot handle .{event.value}"):
            TRANSITIONS.step(state, event)


def test_the_drawing_has_every_state_and_event() -> None:
    drawn = EndpointState.__doc__ or ""
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
    taken: set[tuple[EndpointState, EndpointEvent]] = set()

    step = TRANSITIONS.step

    def recorded(state: EndpointState, event: EndpointEvent) -> EndpointState:
        taken.add((state, event))
        return step(state, event)

    monkeypatch.setattr(TRANSITIONS, "step", recorded)
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
    line = Driver()
    line.nack(line.send(0), 0)
    line.pump.link_up(8)
    assert line.pump.state(0) is EndpointState.IDLE
    line.nack(line.send(0), 0)
    line.nack(line.send(1), 1)
    assert line.pump.state(0) is EndpointState.DEAD
    line.pump.link_up(8)
    assert line.pump.state(0) is EndpointState.IDLE and line.send(math.nextafter(1, 2)) > 0


# ---- what the pump wants: values, so that a driver can keep them, compare them and perform them later ----------------


def test_the_same_situation_wants_the_same() -> None:

    def run() -> tuple[PumpWait | Fetch, object, PumpWait | Fetch]:
        pump = Pump(UPSTREAM, uniform=lambda: 0.5)
        pump.found(QueueId(UPSTREAM, 3), 41)
        pump.link_up(8)
        fetch = pump.next(0)
        assert isinstance(fetch, Fetch)
        return fetch, pump.fetched(fetch, [Item(42, 1, "t", 0.0, None, b"x")], 0), pump.next(0)

    fetch, send, wait = run()
    assert run() == (fetch, send, wait)
    assert isinstance(send, SendBatch) and [item.offset for item in send.items] == [42] and wait == PumpWait()
