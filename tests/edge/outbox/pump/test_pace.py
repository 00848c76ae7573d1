"""The pace against lines of every kind: an alarm waits about two seconds, and the line is kept busy."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.pump.pace import EARNED_BYTES_MAX, LATELY_SECONDS, SPARE_BYTES, Pace, Shares
from fairlead_edge.outbox.pump.pump import Pump
from fairlead_edge.outbox.pump.stream import PumpWait, SendBatch
from fairlead_edge.routes.endpoints import UPSTREAM
from fairlead_wire.message import Ack


class Line:
    """A pump with a backlog, a hub, and a link between them that carries ``rate`` bytes per second, in order.

    ``burst``: bytes that pass at once after a pause, as shapers let them.
    """

    def __init__(
        self, *, rate: float, delay: float, held: float = 0.0, burst: int = 0, reports: bool = True, size: int = 1000
    ) -> None:
        self.rate, self.delay, self.held, self.burst, self.reports, self.size = rate, delay, held, burst, reports, size
        self.now = 0.0
        self.pump = Pump(UPSTREAM, uniform=Random(1).random)
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._free_at = 0.0
        self._credit, self._credit_at = float(burst), 0.0
        self.alarms: dict[int, float] = {}
        """When each offset arrived at the hub."""
        self._alarm_log: list[Item] = []
        self.carried = 0
        self.pump.link_up(8)
        self.pump.appended(9)

    def alarm(self) -> int:
        offset = len(self._alarm_log)
        self._alarm_log.append(Item(offset, 1, "t", self.now, None, b"{" + b"a" * 198 + b"}"))
        self.pump.appended(0)
        return offset

    def run(self, until: float) -> None:
        self._act()
        while self._timers and self._timers[0][0] <= until:
            self.now, _, action = heapq.heappop(self._timers)
            action()
            self._act()
        self.now = until

    def _act(self) -> None:
        for _ in range(1000):
            step = self.pump.next(self.now)
            if isinstance(step, PumpWait):
                return
            if step.queue.priority == 0:
                items = [item for item in self._alarm_log if item.offset > step.after]
            else:
                count = min(step.messages_max, max(1, -(-step.bytes_max // self.size)))
                content = b"{" + b"x" * (self.size - 2) + b"}"
                items = [Item(step.after + 1 + n, 1, "t", 0.0, None, content) for n in range(count)]
            send = self.pump.fetched(step, items, self.now)
            if isinstance(send, SendBatch):
                self._send(send)
        raise AssertionError("the pump never rests")

    def _send(self, send: SendBatch) -> None:
        size = sum(len(item.content) for item in send.items)
        self.pump.packed(send.batch, size, self.now)
        idle_since = max(self._free_at, self._credit_at)
        self._credit = min(self.burst, self._credit + max(0.0, self.now - idle_since) * self.rate)
        self._credit_at = self.now
        free = min(size, int(self._credit)) if self._free_at <= self.now else 0
        self._credit -= free
        self._free_at = max(self._free_at, self.now) + (size - free) / self.rate
        self._at(self._free_at + self.delay / 2, lambda: self._arrived(send, size))

    def _arrived(self, send: SendBatch, size: int) -> None:
        self.carried += size
        if send.queue.priority == 0:
            for item in send.items:
                self.alarms[item.offset] = self.now
        held = self.held if self.reports else None
        self._at(self.now + self.held + self.delay / 2, lambda: self._answered(send, held))

    def _answered(self, send: SendBatch, held: float | None) -> None:
        settle = self.pump.answered(send.batch, Ack(parent_id=1, held_seconds=held), self.now)
        assert settle is not None
        self.pump.settled(settle.batch)

    def _at(self, due: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (due, next(self._order), action))


@pytest.mark.slow
@pytest.mark.parametrize("rate", [4_000, 12_000, 16_000, 100_000, 5_000_000])
@pytest.mark.parametrize("delay", [0.001, 0.2, 1.0])
@pytest.mark.parametrize("held", [0.0, 0.05, 3.0])
def test_an_alarm_waits_about_two_seconds_behind_a_backlog(rate: float, delay: float, held: float) -> None:
    """On any link, however long the hub takes; and most of the link is used."""
    line = Line(rate=rate, delay=delay, held=held, size=max(1000, int(rate) // 250))
    line.run(60)
    before, began = line.carried, line.now
    waits = []
    for _ in range(10):
        offset, appended = line.alarm(), line.now
        line.run(line.now + 11.3)
        waits.append(line.alarms[offset] - appended)
    spare = (2 * SPARE_BYTES + 1500) / rate
    assert max(waits) < delay + LATELY_SECONDS + spare + (1.0 if held < 1 else held), waits
    window = 8 * 256 * 1024 / (delay + held + 0.001)
    possible = min(rate, window)
    assert line.carried - before > 0.6 * possible * (line.now - began)


@pytest.mark.parametrize("burst", [64 * 1024, 256 * 1024])
def test_a_shaper_that_lets_a_burst_pass_does_not_fool_it(burst: int) -> None:
    """The first quarter of a megabyte passes at once, the rest at 16 kB/s; alarms wait no longer because of it."""
    line = Line(rate=16_000, delay=0.02, burst=burst)
    line.run(40)
    for _ in range(10):
        offset, appended = line.alarm(), line.now
        line.run(line.now + 7.7)
        assert line.alarms[offset] - appended < 4


def test_a_line_that_becomes_slow_is_noticed() -> None:
    line = Line(rate=200_000, delay=0.05)
    line.run(10)
    line.rate = 12_000
    line.run(100)
    offset, appended = line.alarm(), line.now
    line.run(110)
    assert line.alarms[offset] - appended < 4


def test_a_hub_that_does_not_say_how_long_it_had_a_batch() -> None:
    """An older hub gets more time, and its slow messaging service is not taken for a slow link."""
    line = Line(rate=1_000_000, delay=0.05, held=3.0, reports=False)
    line.run(60)
    assert line.carried > 60 * 200_000
    line = Line(rate=16_000, delay=0.05, held=0.05, reports=False)
    line.run(60)
    offset, appended = line.alarm(), line.now
    line.run(80)
    assert line.alarms[offset] - appended < 8


def test_what_was_lost_is_not_in_flight() -> None:
    pace = Pace()
    pace.sent(1, 5000, 0.0)
    pace.sent(2, 3000, 0.0)
    pace.sent(2, 4000, 0.0)
    assert pace.in_flight == 9000 and not pace.has_room(0.0)
    pace.answered(1, 0.0, 0.5)
    pace.lost(2)
    assert (pace.in_flight, pace.limit(0.5)) == (0, SPARE_BYTES + 5000)
    assert pace.limit(60.0) == SPARE_BYTES
    pace.begin()
    pace.answered(7, None, 0.0)
    assert (pace.in_flight, pace.limit(0.0)) == (0, SPARE_BYTES)


# ---- each that waits gets its share, whatever the sizes --------------------------------------------------------------


BATCH = 8000


def split(share: float, priorities: tuple[int, ...], batches: int = 4000, seed: int = 1) -> Counter[int]:
    """The part of each priority if all have endless backlogs, in percent."""
    shares, dice, sent = Shares(share), Random(seed), Counter[int]()
    for _ in range(batches):
        priority = (shares.due(BATCH) or [min(priorities)])[0]
        size = dice.randrange(BATCH // 2, BATCH)
        sent[priority] += size
        shares.sent(priority, size, priorities)
    return Counter({priority: round(100 * size / sent.total()) for priority, size in sent.items()})


def test_without_a_share_the_most_urgent_goes_alone() -> None:
    assert split(0.0, (0, 5, 9)) == {0: 100}


@pytest.mark.parametrize(
    ("share", "priorities", "parts"),
    [
        (0.05, (0, 9), {0: 95, 9: 5}),
        (0.1, (0, 5, 9), {0: 80, 5: 10, 9: 10}),
        (0.5, (0, 9), {0: 50, 9: 50}),
        (0.5, (0, 5, 9), {0: 33, 5: 33, 9: 33}),
    ],
)
def test_each_less_urgent_one_gets_its_share(share: float, priorities: tuple[int, ...], parts: dict[int, int]) -> None:
    found = split(share, priorities)
    assert all(abs(found[priority] - part) <= 1 for priority, part in parts.items()), found


def test_earnings_are_bounded_and_end_with_the_waiting() -> None:
    shares = Shares(0.5)
    for _ in range(100):
        shares.sent(0, EARNED_BYTES_MAX, [0, 9])
    shares.sent(9, EARNED_BYTES_MAX, [0, 9])
    assert shares.due(1) == []
    shares.sent(0, 10_000, [0, 9])
    assert shares.due(1) == [9]
    shares.sent(0, 10_000, [0])
    assert shares.due(1) == []


def test_what_goes_because_nothing_urgent_waits_costs_nothing() -> None:
    shares = Shares(0.1)
    shares.sent(9, 1 << 20, [9])
    shares.sent(0, 100_000, [0, 9])
    assert shares.due(5000) == [9]


def test_a_message_larger_than_earned_is_paid_off() -> None:
    shares = Shares(0.5)
    shares.sent(0, 1000, [0, 9])
    shares.sent(9, 5000, [0, 9])
    for _ in range(3):
        shares.sent(0, 1000, [0, 9])
        assert shares.due(1) == []
    for _ in range(3):
        shares.sent(0, 1000, [0, 9])
    assert shares.due(1) == [9]


@pytest.mark.parametrize(
    ("live", "floor", "ranks", "parts"),
    [
        (0.2, 0.0, (18, 19), {18: 20, 19: 80}),
        (0.5, 0.0, (18, 19), {18: 50, 19: 50}),
        (0.9, 0.0, (18, 19), {18: 90, 19: 10}),
        (0.5, 0.1, (10, 11, 19), {10: 45, 11: 45, 19: 10}),
    ],
)
def test_the_live_lane_and_the_rest_share_what_their_priority_gets(
    live: float, floor: float, ranks: tuple[int, ...], parts: dict[int, int]
) -> None:
    shares, dice, sent = Shares(floor, live), Random(1), Counter[int]()
    for _ in range(6000):
        rank = (shares.due(BATCH) or [min(ranks)])[0]
        size = dice.randrange(BATCH // 2, BATCH)
        sent[rank] += size
        shares.sent(rank, size, ranks)
    found = {rank: 100 * size / sent.total() for rank, size in sent.items()}
    assert all(abs(found[rank] - part) <= 2 for rank, part in parts.items()), found
