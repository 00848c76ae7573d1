"""The pump's rules, one by one: what goes next, what an answer means, who waits for whom."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random
from typing import Literal

import pytest

from fairlead_edge.outbox.delivery import UPSTREAM_POLICY
from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.plan.gate import OPEN, HeldUntil, PlanGate, PumpGate, Why
from fairlead_edge.outbox.pump import pace, stream
from fairlead_edge.outbox.pump.pump import DEFERRED_TOPICS_MAX, Pump
from fairlead_edge.outbox.pump.stream import EndpointEvent, EndpointState, Fetch, PumpWait, SendBatch, Settle
from fairlead_edge.outbox.queues import DEFAULT_PRIORITY, QueueId, live_lane
from fairlead_edge.routes.endpoints import UPSTREAM
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.message import Ack, Deferred, Nack, RefusedItem

POLICY = DeliveryPolicy(
    retries_with_no_delay=0,
    minimum_delay_retries=0,
    minimum_delay=1,
    maximum_delay=8,
    backoff_retries=4,
    maximum_delay_retries=0,
    retry_backoff_function="exponential",
)
ONE_RETRY = DeliveryPolicy(
    retries_with_no_delay=0, minimum_delay_retries=0, minimum_delay=1, maximum_delay=1, backoff_retries=0,
    maximum_delay_retries=1,
)  # fmt: skip
"""One second, then dead."""
REST = DEFAULT_PRIORITY


class Bench:
    """A pump on a store of lists: ``store`` puts messages in, ``go`` lets the pump act once."""

    def __init__(
        self,
        policy: DeliveryPolicy = POLICY,
        window: int = 8,
        gate: PumpGate = OPEN,
        floor_share: float = 0.0,
        live_first_share: float = 0.0,
    ) -> None:
        self.pump = Pump(
            UPSTREAM,
            policy=policy,
            uniform=Random(1).random,
            gate=gate,
            floor_share=floor_share,
            live_first_share=live_first_share,
        )
        self.logs: dict[int, list[Item]] = {}
        self.stored: Counter[int] = Counter()
        self.sent: list[SendBatch] = []
        self.settled: list[Settle] = []
        self.pump.link_up(window)

    def store(self, priority: int, count: int = 1, *, expires: float | None = None, topic: str = "t") -> None:
        log = self.logs.setdefault(priority, [])
        start = self.stored[priority]
        self.stored[priority] += count
        log += [Item(offset, 1, topic, 0.0, expires, b"{}") for offset in range(start, start + count)]
        self.pump.appended(priority)

    def go(self, now: float = 0.0) -> SendBatch | Settle | PumpWait | None:
        step = self.pump.next(now)
        if isinstance(step, PumpWait):
            return step
        return self.fetched(step, now)

    def fetched(self, fetch: Fetch, now: float) -> SendBatch | Settle | None:
        log = self.logs.get(fetch.queue.priority, [])
        live = (item for item in log if item.offset > fetch.after and item.live(now))
        effect = self.pump.fetched(fetch, list(islice(live, fetch.messages_max)), now)
        if isinstance(effect, SendBatch):
            self.sent.append(effect)
        elif isinstance(effect, Settle):
            self._settle(effect)
        return effect

    def send(self, now: float = 0.0) -> SendBatch:
        """Act until a batch is sent."""
        for _ in range(20):
            effect = self.go(now)
            if isinstance(effect, SendBatch):
                return effect
            assert not isinstance(effect, PumpWait), f"waits instead of sending: {effect}"
        raise AssertionError("no batch left")

    def waits(self, now: float = 0.0) -> PumpWait:
        """Act until there is nothing to do."""
        for _ in range(20):
            effect = self.go(now)
            if isinstance(effect, PumpWait):
                return effect
            assert not isinstance(effect, SendBatch), f"sends instead of waiting: {offsets(effect)}"
        raise AssertionError("never rests")

    def ack(self, send: SendBatch, now: float = 0.0, refused: list[RefusedItem] | None = None) -> Settle:
        settle = self.pump.answered(send.batch, Ack(parent_id=1, refused=refused or []), now)
        assert settle is not None
        self._settle(settle)
        return settle

    def nack(
        self,
        send: SendBatch,
        now: float = 0.0,
        *,
        permanent: bool = False,
        retry_after: float | None = None,
        scope: Literal["stream", "hub"] = "stream",
    ) -> None:
        answer = Nack(
            parent_id=1, code="busy", reason="not now", permanent=permanent, retry_after=retry_after, scope=scope
        )
        settle = self.pump.answered(send.batch, answer, now)
        if settle is not None:
            self._settle(settle)

    def defer(self, send: SendBatch, now: float = 0.0, *topics: str, retry_after: float | None = None) -> Settle | None:
        """The hub accepts the batch except for these topics."""
        named = [item.topic for item in send.items]
        deferred = [
            Deferred(index=named.index(topic), code="over_quota", reason="full", retry_after=retry_after)
            for topic in topics
            if topic in named
        ]
        settle = self.pump.answered(send.batch, Ack(parent_id=1, deferred=deferred), now)
        if settle is not None:
            self._settle(settle)
        return settle

    def drain(self, now: float = 0.0) -> list[SendBatch]:
        """Send and acknowledge until nothing is left."""
        first = len(self.sent)
        while not isinstance(effect := self.go(now), PumpWait):
            if isinstance(effect, SendBatch):
                self.ack(effect, now)
        return self.sent[first:]

    def _settle(self, settle: Settle) -> None:
        self.settled.append(settle)
        done = {*settle.sent, *(refusal.offset for refusal in settle.refused)}
        log = self.logs[settle.queue.priority]
        self.logs[settle.queue.priority] = [item for item in log if item.offset not in done]
        self.pump.settled(settle.batch)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def offsets(send: SendBatch) -> list[int]:
    return [item.offset for item in send.items]


# ---- which batch goes next ----


def test_most_urgent_priority_goes_first(bench: Bench) -> None:
    for priority in (REST, 5, 0):
        bench.store(priority)
    assert [send.queue.priority for send in bench.drain()] == [0, 5, REST]


def test_every_batch_starts_again_from_the_top(bench: Bench) -> None:
    bench.store(REST, 600)
    first = bench.send()
    bench.store(0)
    bench.ack(first)
    assert bench.send().queue.priority == 0
    assert bench.send().queue.priority == REST


def test_batches_never_mix_priorities_and_keep_to_their_limit(bench: Bench) -> None:
    bench.store(1, 300)
    bench.store(2, 10)
    batches = bench.drain()
    assert [(send.queue.priority, len(send.items)) for send in batches] == [(1, 256), (1, 44), (2, 10)]
    assert offsets(batches[0]) + offsets(batches[1]) == list(range(300))


def test_less_urgent_ones_wait_while_the_window_is_full() -> None:
    bench = Bench(window=1)
    bench.store(0, 300)
    bench.store(REST)
    first = bench.send()
    assert bench.waits() == PumpWait()
    bench.ack(first)
    assert bench.send().queue.priority == 0


def test_several_batches_fly_once_one_was_answered(bench: Bench) -> None:
    bench.store(0, 256 * 20)
    first = bench.send()
    bench.waits()
    bench.ack(first)
    second, third = bench.send(), bench.send()
    bench.waits()
    bench.ack(second)
    bench.ack(third)
    for _ in range(4):
        bench.send()
    bench.waits()


def test_nothing_leaves_while_the_link_is_down(bench: Bench) -> None:
    bench.pump.link_down()
    bench.store(0)
    assert bench.waits() == PumpWait()
    bench.pump.link_up(8)
    assert bench.send().queue.priority == 0


def test_queue_found_on_disk_goes_on_where_its_checkpoint_is() -> None:
    bench = Bench()
    bench.pump.found(QueueId(UPSTREAM, 7), 41)
    fetch = bench.pump.next(0)
    assert isinstance(fetch, Fetch)
    assert (fetch.queue, fetch.after) == (QueueId(UPSTREAM, 7), 41)


def test_message_stored_during_a_fetch_is_not_overlooked(bench: Bench) -> None:
    """An empty result of an earlier fetch must not make the pump ignore the message."""
    bench.store(0)
    fetch = bench.pump.next(0)
    assert isinstance(fetch, Fetch)
    bench.pump.appended(0)
    assert bench.pump.fetched(fetch, [], 0) is None
    assert offsets(bench.send()) == [0]


# ---- time to live ----


def test_time_to_live_is_tested_again_at_the_moment_of_sending(bench: Bench) -> None:
    bench.store(0, expires=10)
    bench.store(0)
    fetch = bench.pump.next(9)
    assert isinstance(fetch, Fetch)
    effect = bench.pump.fetched(fetch, bench.logs[0], 10)
    assert isinstance(effect, SendBatch)
    assert offsets(effect) == [1]


def test_expired_message_is_not_sent_by_a_retry(bench: Bench) -> None:
    """A batch that backed off is fetched again, without what expired meanwhile."""
    bench.store(0, expires=0.5)
    bench.nack(bench.send(0), 0)
    assert bench.waits(5) == PumpWait()
    assert bench.pump.state(0) is EndpointState.IDLE


# ---- answers ----


def test_ack_settles_the_batch_and_moves_the_checkpoint(bench: Bench) -> None:
    bench.store(0, 3)
    settle = bench.ack(bench.send())
    assert (settle.sent, settle.refused, settle.checkpoint) == ((0, 1, 2), (), 2)
    assert bench.pump.state(0) is EndpointState.IDLE


def test_refused_messages_of_a_batch_are_settled_with_their_reason(bench: Bench) -> None:
    bench.store(0, 3)
    settle = bench.ack(
        bench.send(),
        refused=[RefusedItem(index=1, code="denied", reason="why"), RefusedItem(index=9, code="x", reason="y")],
    )
    assert settle.sent == (0, 2)
    assert [(refusal.offset, refusal.code, refusal.reason) for refusal in settle.refused] == [(1, "denied", "why")]
    assert settle.checkpoint == 2


def test_temporary_nack_parks_by_the_policy_and_sends_the_same_again(bench: Bench) -> None:
    bench.store(0, 2)
    now = 0.0
    for delay in (1, 2, 4, 8):
        bench.nack(bench.send(now), now)
        assert bench.waits(now) == PumpWait(until=now + delay)
        assert bench.pump.state(0) is EndpointState.BACKOFF
        now += delay
    send = bench.send(now)
    assert offsets(send) == [0, 1]
    bench.ack(send, now)
    bench.store(0)
    bench.nack(bench.send(now), now)
    assert bench.waits(now) == PumpWait(until=now + 1)


def test_retry_after_of_the_hub_is_respected(bench: Bench) -> None:
    """It replaces the backoff, in both directions, within bounds."""
    bench.store(0)
    bench.nack(bench.send(), retry_after=30)
    assert bench.waits() == PumpWait(until=30)
    for start, asked, waited in ((30.0, 0.5, 0.5), (30.5, 0.0, 0.1), (30.6, 1e12, 3600.0)):
        bench.nack(bench.send(start), start, retry_after=asked)
        assert bench.waits(start) == PumpWait(until=start + waited)


def test_retry_probes_with_a_small_batch_that_grows_with_success(bench: Bench) -> None:
    """A metered link must not carry a full batch in vain every few seconds."""
    bench.store(0, 600)
    bench.nack(bench.send())
    assert [len(send.items) for send in bench.drain(1)] == [16, 32, 64, 128, 256, 104]


def test_parked_low_priority_yields_to_a_new_alarm(bench: Bench) -> None:

    bench.store(5)
    bench.nack(bench.send(), retry_after=60)
    bench.store(0)
    alarm = bench.send(1)
    assert alarm.queue.priority == 0
    bench.ack(alarm, 1)
    assert bench.waits(1) == PumpWait(until=60)  # its own reason to wait may still hold: nothing failed at priority 0


def test_when_a_less_urgent_one_comes_due_the_alarm_probes_first(bench: Bench) -> None:
    """The first retry after an outage must be the alarm's, although its own wait is longer."""
    bench.store(0)
    bench.nack(bench.send(), retry_after=60)
    bench.store(5)
    bench.nack(bench.send(), retry_after=3)
    alarm = bench.send(3)
    assert alarm.queue.priority == 0
    bench.ack(alarm, 3)
    assert bench.send(3).queue.priority == 5


def test_recovery_ends_every_wait(bench: Bench) -> None:
    for priority, wait in ((0, 1), (5, 60), (REST, 60)):
        bench.store(priority)
        bench.nack(bench.send(), retry_after=wait)
    alarm = bench.send(1)
    assert bench.waits(1) == PumpWait(until=60)
    bench.ack(alarm, 1)
    assert bench.send(1).queue.priority == 5


def test_link_that_returns_ends_every_wait(bench: Bench) -> None:
    for priority in (0, 5):
        bench.store(priority)
        bench.nack(bench.send(), retry_after=600)
    bench.pump.link_down()
    bench.pump.link_up(8)
    assert [send.queue.priority for send in bench.drain(1)] == [0, 5]


def test_lost_batch_stays_and_costs_no_retry(bench: Bench) -> None:
    """After a reconnect it is sent again, in order, but after anything more urgent."""
    bench.store(5, 256 * 3)
    bench.ack(bench.send())
    flying = [bench.send(), bench.send()]
    bench.pump.link_down()
    for send in flying:
        bench.pump.lost(send.batch)
    assert bench.pump.state(5) is EndpointState.IDLE
    bench.store(0)
    bench.pump.link_up(8)
    batches = bench.drain()
    assert [send.queue.priority for send in batches] == [0, 5, 5]
    assert offsets(batches[1])[0] == 256
    bench.store(5)
    bench.nack(bench.send())
    assert bench.waits() == PumpWait(until=1)


def test_after_a_failure_all_answers_are_awaited_then_the_first_goes_first(bench: Bench) -> None:
    """A batch after the failed one may have been accepted; what was not settled is sent again, from the start."""
    bench.store(0, 256 * 5)
    bench.ack(bench.send())
    failing, behind = bench.send(), bench.send()
    bench.nack(failing)
    assert bench.waits() == PumpWait()
    bench.ack(behind)
    assert bench.waits() == PumpWait(until=1)
    again = bench.send(1)
    assert offsets(again) == list(range(256, 256 + stream.PROBE_MESSAGES))
    bench.waits(1)  # one at a time until an answer comes
    bench.ack(again, 1)
    following = bench.send(1)
    assert offsets(following) == list(range(272, 272 + 2 * stream.PROBE_MESSAGES))
    # What the hub had taken behind the failed batch is not sent again.
    bench.ack(following, 1)
    assert not set(range(512, 768)) & {offset for send in bench.drain(1) for offset in offsets(send)}


def test_a_batch_says_whether_it_follows_one_that_is_unanswered(bench: Bench) -> None:
    """The hub defers what follows a deferred batch; the batch that begins again follows nothing."""
    bench.store(1, 2000)
    bench.ack(bench.send())
    first, second = bench.send(), bench.send()
    assert (bench.sent[0].follows, first.follows, second.follows) == (False, False, True)
    bench.store(0)
    assert not bench.send().follows, "another priority is another stream"
    bench.nack(first)
    bench.nack(second)
    assert not bench.send(100.0).follows


def test_poison_is_found_by_halving_and_the_others_go(bench: Bench) -> None:
    """A batch that the hub never accepts is halved until the poison message is alone and becomes a dead letter."""
    bench.store(0, 256)
    for _ in range(40):
        effect = bench.go()
        if isinstance(effect, PumpWait):
            break
        if isinstance(effect, SendBatch):
            if 200 in offsets(effect):
                bench.nack(effect, permanent=True)
            else:
                bench.ack(effect)
    assert bench.logs[0] == []
    refused = [refusal.offset for settle in bench.settled for refusal in settle.refused]
    assert refused == [200]
    assert sorted(offset for settle in bench.settled for offset in settle.sent) == [n for n in range(256) if n != 200]


def test_used_up_retries_move_to_the_dead_letters_until_revived() -> None:

    bench = Bench(ONE_RETRY)
    bench.store(0, 2)
    bench.nack(bench.send())
    bench.nack(bench.send(1), 1)
    assert bench.pump.state(0) is EndpointState.DEAD
    effect = bench.go(1)
    assert isinstance(effect, Settle)
    assert [(refusal.offset, refusal.code) for refusal in effect.refused] == [
        (0, "retries_used_up"),
        (1, "retries_used_up"),
    ]
    assert bench.pump.state(0) is EndpointState.DEAD
    bench.store(0)
    later = 1 + stream.REVIVE_SECONDS
    send = bench.send(later)
    assert bench.pump.state(0) is EndpointState.SENDING
    bench.ack(send, later)
    assert bench.pump.state(0) is EndpointState.IDLE


def test_every_transition_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[tuple[EndpointState, EndpointEvent]] = set()
    step = stream.TRANSITIONS.step

    def recorded(state: EndpointState, event: EndpointEvent) -> EndpointState:
        taken.add((state, event))
        return step(state, event)

    monkeypatch.setattr(stream.TRANSITIONS, "step", recorded)
    bench = Bench(ONE_RETRY)
    bench.store(0, 5000)
    bench.ack(bench.send())
    bench.ack(bench.send())
    for send in (bench.send(), bench.send()):  # the depth has grown: two at once
        bench.nack(send)
    assert bench.pump.state(0) is EndpointState.BACKOFF
    bench.nack(bench.send(1), 1)
    assert bench.pump.state(0) is EndpointState.DEAD
    assert isinstance(bench.go(1), Settle)
    alive = 1 + stream.REVIVE_SECONDS
    bench.ack(bench.send(alive), alive)
    failed, lost = bench.send(alive), bench.send(alive)
    bench.nack(failed, alive)
    bench.pump.lost(lost.batch)
    assert bench.pump.state(0) is EndpointState.IDLE
    bench.pump.lost(bench.send(alive).batch)
    bench.defer(bench.send(alive), alive, "t")
    assert taken == set(stream.TRANSITIONS)


def test_a_new_session_revives_a_dead_priority_at_once() -> None:
    bench = Bench(ONE_RETRY)
    bench.store(0, 600)
    bench.nack(bench.send(0))
    bench.nack(bench.send(1), 1)
    assert bench.pump.state(0) is EndpointState.DEAD
    bench.pump.link_up(8)
    assert bench.pump.state(0) is EndpointState.IDLE
    bench.send(1)


def test_default_policy_never_gives_up_in_practice() -> None:
    bench = Bench(UPSTREAM_POLICY)
    bench.store(0)
    now = 0.0
    for _ in range(200):
        bench.nack(bench.send(now), now)
        wait = bench.waits(now)
        assert wait.until is not None and 0.5 <= wait.until - now <= 60
        now = wait.until
    assert now > 3600


# ---- nothing at all is taken ----


def test_nothing_less_urgent_is_tried_while_nothing_is_taken(bench: Bench) -> None:
    """While messaging is away, everything waits behind the alarms, which are sent first when it is back."""
    bench.store(1, 40)
    bench.nack(bench.send(), retry_after=1, scope="hub")
    bench.store(5, 40)
    bench.store(REST, 40)
    assert bench.waits(0.5) == PumpWait(until=1)
    bench.store(0, 3)
    alarm = bench.send(0.6)
    assert alarm.queue.priority == 0, "what is more urgent than all that failed may find out at once"
    bench.nack(alarm, 0.6, retry_after=1, scope="hub")
    assert bench.waits(0.7) == PumpWait(until=1.6)
    probe = bench.send(1.6)
    assert probe.queue.priority == 0
    assert isinstance(bench.go(1.6), PumpWait | None) and isinstance(bench.go(1.6), PumpWait), "it finds out alone"
    bench.ack(probe, 1.7)
    order = [send.queue.priority for send in bench.drain(1.7)]
    assert order == sorted(order) and set(order) == {1, 5, REST}


def test_an_answer_ends_the_wait_of_all(bench: Bench) -> None:
    """A batch in flight is accepted after all, so the rest need not wait for the failure."""
    bench.store(5, 256 * 3)
    bench.ack(bench.send())
    bench.store(0)
    flying = bench.send()
    less = bench.send()
    assert (flying.queue.priority, less.queue.priority) == (0, 5)
    bench.nack(flying, retry_after=60, scope="hub")
    assert bench.waits() == PumpWait(until=60)
    bench.ack(less)
    assert bench.send().queue.priority == 0


@pytest.mark.parametrize("last", ["timeout", "never", "ack", "lost"])
def test_whatever_the_last_answer_is_the_wait_has_an_end(bench: Bench, last: str) -> None:
    """Of several batches in flight, one answer says that nothing is accepted, and the last is of another kind."""
    bench.store(5, 256 * 3)
    bench.ack(bench.send())
    one, other = bench.send(), bench.send()
    bench.nack(one, scope="hub", retry_after=1)
    bench.store(7)
    assert bench.waits(0) == PumpWait(), "its other answer is not in yet"
    if last == "timeout":
        bench.nack(other, retry_after=2)
    elif last == "never":
        bench.nack(other, permanent=True)
    elif last == "ack":
        bench.ack(other)
    else:
        bench.pump.lost(other.batch)
        bench.pump.link_down()
        bench.pump.link_up(8)
    assert [send.queue.priority for send in bench.drain(3)][-1] == 7


def test_in_a_new_session_one_batch_finds_out(bench: Bench) -> None:
    """The hub is back but messaging may not be, so only one batch probes."""
    for priority in (0, 5, REST):
        bench.store(priority, 3)
    first = bench.send()
    assert bench.waits() == PumpWait()
    bench.ack(first)
    assert bench.send().queue.priority == 5


def test_what_nothing_is_taken_of_says_why(bench: Bench) -> None:
    bench.store(5)
    bench.store(7)
    bench.nack(bench.send(3), 3, retry_after=2)
    bench.nack(bench.send(5), 5, retry_after=2)
    [trouble] = bench.pump.troubles()[5]
    assert (trouble.since, trouble.code, trouble.reason) == (3, "busy", "not now")
    assert (trouble.attempts, trouble.retry_at) == (2, 7)
    assert 7 not in bench.pump.troubles() or bench.pump.troubles()[7][0].attempts == 1
    bench.ack(bench.send(7), 7)
    assert 5 not in bench.pump.troubles()


# ---- the line ----


def test_what_is_in_flight_follows_the_line(bench: Bench) -> None:
    content = b"{" + b"x" * 998 + b"}"
    bench.logs[9] = [Item(offset, 1, "t", 0.0, None, content) for offset in range(2000)]
    bench.stored[9] = 2000
    bench.pump.appended(9)
    fetch = bench.pump.next(0)
    assert isinstance(fetch, Fetch) and fetch.bytes_max == pace.SPARE_BYTES
    first = bench.pump.fetched(fetch, bench.logs[9][:3], 0)
    assert isinstance(first, SendBatch)
    bench.pump.packed(first.batch, 3000, 0)
    assert bench.waits() == PumpWait()
    bench.store(0)
    alarm = bench.send()
    assert alarm.queue.priority == 0
    bench.ack(alarm, 0.5)
    bench.ack(first, 0.5)
    fetch = bench.pump.next(0.5)
    assert isinstance(fetch, Fetch) and fetch.bytes_max == pace.SPARE_BYTES
    assert bench.pump.bytes_in_flight == 0


class Closed:
    """A gate that holds some priorities, and lets the others have batches of one byte."""

    def __init__(self, *priorities: int) -> None:
        self.priorities = set(priorities)

    def held(self, priority: int, in_flight: int, now: float) -> HeldUntil | None:
        return HeldUntil(Why.WINDOW, now + 7) if priority in self.priorities else None

    def room(self, priority: int, in_flight: int, now: float) -> int | None:
        return 1

    def sent(self, size: int, now: float) -> None:
        pass


def test_messages_held_by_the_gate_wait_and_delay_no_other() -> None:
    gate = Closed(0)
    bench = Bench(gate=gate)
    bench.store(0, 2)
    assert bench.go(5.0) == PumpWait(until=12.0)
    bench.store(9, 1)
    sent = bench.send(5.0)
    assert sent.queue.priority == 9
    assert bench.pump.held(5.0) == {0: HeldUntil(Why.WINDOW, 12.0)}
    gate.priorities.clear()
    assert bench.send(5.0).queue.priority == 0


def test_a_batch_has_no_more_than_the_gate_has_room_for() -> None:
    bench = Bench(gate=Closed())
    bench.store(0, 5)
    fetch = bench.pump.next(0.0)
    assert isinstance(fetch, Fetch) and fetch.bytes_max == 1


def test_the_rate_of_the_line_is_kept_over_a_backlog() -> None:

    gate = PlanGate(bytes_per_second=50)
    bench = Bench(gate=gate)
    bench.store(3, 4000)
    now, size = 0.0, 0
    while now < 60:
        gate.update(now=now, wall=1e9, carried=0)
        step = bench.go(now)
        if isinstance(step, PumpWait):
            assert step.until is not None and step.until > now
            now = step.until
        elif isinstance(step, SendBatch):
            bytes_left = 2 * len(step.items)
            bench.pump.packed(step.batch, bytes_left, now)
            size += bytes_left
            bench.ack(step, now)
    assert 50 * 60 * 0.9 <= size <= 50 * 61 + 2 * 256


def test_with_a_floor_share_less_urgent_ones_get_it_and_no_more() -> None:
    """With endless backlogs, nine tenths of what is sent are alarms."""
    bench = Bench(floor_share=0.1)
    bench.store(0, 31_000)
    bench.store(9, 5_000)
    sent: Counter[int] = Counter()
    for _ in range(120):
        step = bench.send()
        sent[step.queue.priority] += 1
        bench.pump.packed(step.batch, sum(len(item.content) for item in step.items) * 100, 0.0)
        bench.ack(step)
    assert 0.07 <= sent[9] / sent.total() <= 0.13, sent


def test_a_share_probes_nothing_and_sends_nothing_while_messaging_is_away() -> None:
    bench = Bench(floor_share=0.5)
    bench.store(0, 1000)
    bench.store(9, 1000)
    first = bench.send()
    assert first.queue.priority == 0  # the first batch of a session is the most urgent
    bench.nack(first, scope="hub", retry_after=1.0)
    assert isinstance(bench.go(0.5), PumpWait)
    assert bench.send(5.0).queue.priority == 0


def test_while_a_priority_is_behind_what_is_accepted_has_a_lane_of_its_own() -> None:
    """But not without a live share, without a link, or for a priority that keeps up."""
    for share, behind in ((0.0, False), (0.5, True)):
        bench = Bench(live_first_share=share)
        bench.store(3, 1000)
        queue = QueueId(UPSTREAM, 3)
        assert bench.pump.lane(queue) == queue
        bench.send(now=5.0)  # of ages up to five seconds
        assert bench.pump.lane(queue) == queue
        bench.ack(bench.sent[-1], 20.0)
        bench.send(now=20.0)
        assert (bench.pump.lane(queue) != queue) == behind
        bench.pump.link_down()
        assert bench.pump.lane(queue) == queue


def test_the_live_lane_goes_first_with_its_share_and_each_keeps_its_order() -> None:
    bench = Bench(live_first_share=0.5)
    live = live_lane(3)
    bench.store(3, 8000)
    bench.store(live, 8000)
    offsets: dict[int, list[int]] = {3: [], live: []}
    for _ in range(40):
        step = bench.send()
        offsets[step.queue.priority] += [item.offset for item in step.items]
        bench.ack(step)
    assert bench.sent[0].queue.priority == live
    assert all(found == sorted(set(found)) for found in offsets.values())
    assert 0.35 <= len(offsets[live]) / sum(map(len, offsets.values())) <= 0.65


# ---- topics that the hub defers ----


def test_a_deferred_topic_waits_alone(bench: Bench) -> None:
    """The other topics continue, the batch is settled in part, and the checkpoint stays below what waits."""
    bench.store(5, 2, topic="full")
    bench.store(5, 2, topic="good")
    settle = bench.defer(bench.send(), 0, "full", retry_after=10)
    assert settle is not None and settle.sent == (2, 3) and settle.checkpoint == -1
    bench.store(5, 1, topic="full")
    bench.store(5, 1, topic="good")
    assert [offsets(send) for send in bench.drain(1)] == [[5]]
    assert bench.pump.deferred_topics(5) == ["full"]
    [trouble] = bench.pump.troubles()[5]
    assert (trouble.topic, trouble.code, trouble.retry_at) == ("full", "over_quota", 10)
    assert bench.waits(1).until == 10
    apart = bench.send(10)
    assert (offsets(apart), apart.topic, apart.follows) == ([0, 1, 4], "full", False)
    assert bench.ack(apart, 10).checkpoint == 4
    bench.store(5, 1, topic="full")
    together = bench.send(10)
    assert (offsets(together), together.topic) == ([6], "") and bench.pump.deferred_topics(5) == []
    assert bench.ack(together, 10).checkpoint == 6 and 5 not in bench.pump.troubles()


def test_a_deferred_topic_backs_off_by_the_policy_and_delays_nothing(bench: Bench) -> None:

    bench.store(0, 1, topic="full")
    bench.store(5)
    bench.defer(bench.send(), 0, "full")
    less_urgent = bench.send(0)
    assert less_urgent.queue.priority == 5
    bench.ack(less_urgent)
    waits = []
    now = 0.0
    for _ in range(3):
        until = bench.waits(now).until
        assert until is not None
        waits.append(until - now)
        now = until
        apart = bench.send(now)
        assert apart.topic == "full"
        bench.store(5)
        bench.defer(apart, now, "full")
        bench.ack(bench.send(now), now)
    assert waits == sorted(waits) and waits[0] < waits[-1]


def test_what_is_out_of_a_deferred_topic_is_waited_for(bench: Bench) -> None:
    """To keep the order, its own stream begins once no other batch has any of it and all settlements are durable."""
    for _ in range(3):  # two batches at once from the second success on
        bench.store(5)
        bench.ack(bench.send())
    bench.store(5, 256, topic="full")
    bench.store(5, 10, topic="full")
    first, second = bench.send(), bench.send()
    bench.defer(first, 0, "full", retry_after=0.1)
    bench.store(5, 1, topic="good")
    good = bench.send(5)
    assert [item.topic for item in good.items] == ["good"]
    bench.defer(second, 5, "full")
    apart = bench.send(5)
    assert apart.topic == "full" and apart.items[0].offset == first.items[0].offset
    bench.ack(apart, 5)
    rest = [apart]
    while bench.pump.deferred_topics(5):
        effect = bench.go(5)
        if isinstance(effect, SendBatch):
            rest.append(effect)
            bench.ack(effect, 5)
    sent = [item.offset for send in rest for item in send.items]
    assert sent == sorted(set(sent)) and len(sent) == 266
    bench.store(5)
    assert isinstance(bench.go(5), PumpWait), (
        "the next batch with others follows nothing: the hub forgets what it deferred"
    )
    bench.ack(good, 5)
    assert not bench.send(5).follows


def test_beyond_so_many_deferred_topics_the_queue_waits_as_a_whole(bench: Bench) -> None:

    topics = [f"t{number}" for number in range(DEFERRED_TOPICS_MAX + 1)]
    for topic in topics:
        bench.store(5, topic=topic)
    bench.store(5, topic="good")
    settle = bench.defer(bench.send(), 0, *topics)
    assert settle is not None and settle.sent == (len(topics),)
    assert bench.pump.state(5) is EndpointState.BACKOFF and len(bench.pump.deferred_topics(5)) == DEFERRED_TOPICS_MAX
    sent = Counter(item.topic for send in bench.drain(100) for item in send.items)
    assert sent == Counter(topics)


def test_a_new_session_ends_the_wait_of_a_deferred_topic(bench: Bench) -> None:
    """A batch that was lost with the link is sent again, in order."""
    bench.store(5, 3, topic="full")
    bench.store(5, 1, topic="good")
    bench.defer(bench.send(), 0, "full", retry_after=1000)
    bench.pump.link_down()
    bench.pump.link_up(8)
    apart = bench.send(1)
    assert offsets(apart) == [0, 1, 2]
    bench.pump.lost(apart.batch)
    bench.pump.link_down()
    bench.pump.link_up(8)
    assert [offsets(send) for send in bench.drain(2)] == [[0, 1, 2]]


def test_a_batch_that_is_put_off_says_what_is_stored(bench: Bench) -> None:
    """What is stored is settled; the rest is sent again, in order."""
    bench.store(5, 4)
    send = bench.send()
    answer = Nack(parent_id=1, code="messaging_away", reason="", retry_after=1, scope="hub", stored=[1, 3])
    settle = bench.pump.answered(send.batch, answer, 0)
    assert settle is not None and (settle.sent, settle.refused, settle.checkpoint) == ((1, 3), (), -1)
    bench._settle(settle)
    bench.logs[5] = [item for item in bench.logs[5] if item.offset in (0, 2)]
    again = bench.send(2)
    assert offsets(again) == [0, 2] and bench.ack(again, 2).checkpoint >= 2
