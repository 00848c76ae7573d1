"""A brokered endpoint against a model: whatever modules do, each message ends once, and no two have it at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.edges import stored

from fairlead_edge.outbox.brokered import endpoint as module
from fairlead_edge.outbox.brokered.endpoint import BrokeredFailed, Endpoint, Leased
from fairlead_edge.outbox.brokered.priority import BrokeredSettle
from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.queues import Attempt, QueueId
from fairlead_wire.delivery_policy import DeliveryPolicy

POLICY = DeliveryPolicy(
    retries_with_no_delay=1, minimum_delay_retries=1, minimum_delay=5, maximum_delay=20, backoff_retries=1,
    maximum_delay_retries=0,
)  # fmt: skip
ATTEMPTS = 4


class Log:
    """What is on disk: two queues, their checkpoints, and the recorded attempts."""

    def __init__(self) -> None:
        self.kept: dict[QueueId, dict[int, str]] = {QueueId("e", 0): {}, QueueId("e", 5): {}}
        self.next = dict.fromkeys(self.kept, 0)
        self.checkpoints = dict.fromkeys(self.kept, -1)
        self.attempts: dict[QueueId, dict[int, Attempt]] = {queue: {} for queue in self.kept}
        self.done: list[str] = []
        self.dead: list[str] = []

    def store(self, queue: QueueId) -> str:
        offset = self.next[queue]
        self.next[queue] += 1
        self.kept[queue][offset] = f"{queue.priority}-{offset}"
        return self.kept[queue][offset]

    def settle(self, settle: BrokeredSettle) -> None:
        for offsets, ends in ((settle.sent, self.done), ([each.offset for each in settle.refused], self.dead)):
            for offset in offsets:
                ends.append(self.kept[settle.queue].pop(offset))
                self.attempts[settle.queue].pop(offset, None)
        self.checkpoints[settle.queue] = max(self.checkpoints[settle.queue], settle.checkpoint)


class Modules(RuleBasedStateMachine):
    """Modules take, acknowledge, abandon, die; the agent is killed; time passes."""

    @initialize()
    def begin(self) -> None:
        self.now = 0.0
        self.log = Log()
        self.stored: list[str] = []
        self.hands: dict[str, float] = {}
        """What modules have, and until when."""
        self.given: dict[str, int] = {}
        self.start()

    def start(self) -> None:
        self.endpoint = Endpoint(policy=POLICY, uniform=lambda: 0.5)
        for queue, attempts in self.log.attempts.items():
            if self.log.next[queue]:
                self.endpoint.found(queue, self.log.checkpoints[queue], attempts.values())

    @rule(priority=st.sampled_from([0, 5]), count=st.integers(1, 4))
    def publish(self, priority: int, count: int) -> None:
        queue = QueueId("e", priority)
        self.stored += [self.log.store(queue) for _ in range(count)]
        self.endpoint.appended(queue)

    @rule(most=st.integers(1, 5), lease=st.sampled_from([10.0, 60.0]), noted=st.booleans())
    def take(self, most: int, lease: float, noted: bool) -> None:
        """``noted`` False: the agent is killed before it recorded the leases, and before the module got anything."""
        self.expire_leases()
        taken: list[Leased] = []
        while len(taken) < most and (fetch := self.endpoint.wanted(self.now, most - len(taken))) is not None:
            log = self.log.kept[fetch.queue]
            offsets = [each for each in sorted(log) if each > max(fetch.after, self.log.checkpoints[fetch.queue])]
            offsets = [each for each in offsets if not fetch.only or each in fetch.only][: fetch.messages_max]
            items = [Item(offset, 1, "", 0, None, stored.content(log[offset])) for offset in offsets]
            given = self.endpoint.fetched(fetch, items, self.now, messages_max=most - len(taken), lease_seconds=lease)
            taken += given.leased
            if noted:
                self.log.attempts[fetch.queue].update({each.offset: each for each in given.attempts})
        if not noted:
            self.start()
            return
        priorities = [each.priority for each in taken]
        assert priorities == sorted(priorities), "the most urgent first"
        for each in taken:
            assert self.hands.get(each.id, 0) <= self.now, "it was in another module's hands"
            assert each.attempt == self.given.get(each.id, 0) + 1
            self.given[each.id] = each.attempt
            self.hands[each.id] = self.now + lease

    @rule(share=st.integers(1, 3))
    def acknowledge(self, share: int) -> None:
        ids = list(self.given)[::share]
        settles, unknown = self.endpoint.acked([*ids, "stranger"])
        assert "stranger" in unknown
        self.finish(settles)
        for id in set(ids) - set(unknown):
            assert id in self.log.done

    @rule(share=st.integers(1, 3))
    def abandon(self, share: int) -> None:
        ids = [id for id, until in self.hands.items() if until > self.now][::share]
        failed, _ = self.endpoint.abandoned(ids, self.now)
        self.fail(failed, noted=True)
        for id in ids:
            self.hands[id] = self.now

    @rule(seconds=st.sampled_from([1.0, 5.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.expire_leases()

    @rule()
    def kill(self) -> None:
        self.start()

    def expire_leases(self) -> None:
        self.fail(self.endpoint.expire_leases(self.now), noted=False)

    def fail(self, failed: Sequence[BrokeredFailed], *, noted: bool) -> None:
        for each in failed:
            if noted:
                self.log.attempts[each.queue].update({attempt.offset: attempt for attempt in each.again})
            if each.settle is not None:
                self.finish([each.settle])

    def finish(self, settles: Sequence[BrokeredSettle]) -> None:
        for settle in settles:
            self.log.settle(settle)
            self.endpoint.settled(settle)

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        if not hasattr(self, "log"):
            return
        waiting = [id for log in self.log.kept.values() for id in log.values()]
        assert sorted(self.stored) == sorted([*self.log.done, *self.log.dead, *waiting])
        for queue, log in self.log.kept.items():
            assert self.log.checkpoints[queue] < min(log, default=self.log.next[queue])
        assert all(self.given[id] == ATTEMPTS for id in self.log.dead)
        assert all(number <= ATTEMPTS for number in self.given.values())

    def teardown(self) -> None:
        """In the end, a module that does its work gets everything that is left."""
        if not hasattr(self, "log"):
            return
        for _ in range(200):
            self.now += 61
            self.take(most=5, lease=10.0, noted=True)
            self.acknowledge(share=1)
        assert not any(self.log.kept.values())


TestModules = pytest.mark.filterwarnings("ignore::hypothesis.errors.NonInteractiveExampleWarning")(Modules.TestCase)
TestModules.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_leases_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEASED_MAX", 3)
    endpoint = Endpoint(uniform=lambda: 0.5)
    queue = QueueId("e", 1)
    leased = [Attempt(offset=offset, id=f"{offset}", number=1, leased=True, until=60) for offset in range(3)]
    assert endpoint.found(queue, -1, leased) == [0, 1, 2]
    assert endpoint.wanted(0, 10) is None
    assert endpoint.next_time(0) == 60
    assert endpoint.counts() == {1: (3, 0)}
    endpoint.expire_leases(60)
    assert endpoint.wanted(60, 10) is not None
