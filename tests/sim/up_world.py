"""A seeded world for messages going up: applications, edges, a hub, messaging, and everything that goes wrong.

The cores are the real ones (the pump, the in-memory outbox, the hub's plan for a batch, messaging's writer and its
producers' pages over the in-memory store).  Messages of one priority go to many topics.  Laws:

1. Every message that was acknowledged to an application is in the topic exactly once after the calm, unless its time to
   live ended at the edge or its disk was replaced by an older copy.
2. No batch is sent while something more urgent could be sent; and while messaging is away and nothing is accepted, not
   while something more urgent waits.
3. No batch holds a message twice.
4. No expired message is sent.
5. Ids in the topic increase strictly, whatever messaging's clock does, and the messages of one stream and epoch of an
   edge are in the order in which they were accepted, whatever failed in between.
6. At each edge: accepted = sent + expired + evicted + dead-lettered + waiting.
7. While no edge is killed: what is in the topics was counted as sent, once; if a link broke or messaging was killed in
   between, as many as are counted in doubt may be counted as expired or evicted instead.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any

from tests.sim.edge import run
from tests.sim.laws import LawBroken
from tests.sim.line_plan import LinePlan
from tests.sim.link import Link
from tests.sim.sender import Sender
from tests.sim.topic import NAMES, NAMESPACE, Topics

from fairlead_hub import publish_batch
from fairlead_wire import message

CALM_SECONDS = 400.0
GRANTED = frozenset(f"{NAMESPACE}/{name}" for name in NAMES)


class Chain:
    """The hub's work on one stream of one session: one batch after the other, each answered once it is durable.

    If the connection breaks, the hub may notice late: batches that have arrived are still processed.
    """

    def __init__(
        self,
        topics: Topics,
        sender: Sender,
        link: Link,
        random: Random,
        *,
        takes_what_follows: bool,
        forgets_what_it_deferred: bool,
    ) -> None:
        self._topics, self._sender, self._link, self._random = topics, sender, link, random
        self._order = publish_batch.Order()
        self._takes_what_follows = takes_what_follows
        self._forgets_what_it_deferred = forgets_what_it_deferred
        self._waiting: deque[tuple[message.Upstream, bytes]] = deque()
        self._busy = False

    def accept(self, header: message.Upstream, content: bytes) -> None:
        self._waiting.append((header, content))
        if not self._busy:
            self._next()

    def _next(self) -> None:
        self._busy = bool(self._waiting)
        if not self._waiting:
            return
        header, content = self._waiting.popleft()
        behind = self._order.judge(header)
        if behind is not None and not self._takes_what_follows:
            self._answer(behind)
            return
        if self._forgets_what_it_deferred:
            self._order.deferred.clear()
        plan = publish_batch.plan(self._sender.name, header, content, GRANTED)
        publishing = publish_batch.Publishing(header, plan, self._order)

        def go_on() -> None:
            while (batch := publishing.next()) is not None and self._topics.refuses(batch.topic):
                publishing.defer(batch.topic, "over_quota", "full", 1.0)
            if batch is None:
                self._answer(publishing.answer())
                return
            self._topics.publish(
                batch.topic, batch.producer, batch.epoch, batch.sequences, batch.payloads,
                lambda stored: published(batch, stored),
            )  # fmt: skip

        def published(batch: publish_batch.PublishBatch, stored: bool) -> None:
            if not stored:
                away = message.Nack(
                    parent_id=header.id, code="messaging_away", reason="not now", retry_after=1.0, scope="hub"
                )
                self._answer(publishing.put_off(away))
                return
            if not self._topics.calm and self._random.random() < 0.02:  # it is stored, and its answer is lost
                publishing.defer(batch.topic, "messaging_unavailable", "no answer", 1.0, in_doubt=True)
            else:
                publishing.stored(batch, None)
            go_on()

        go_on()

    def _answer(self, answer: message.Ack | message.Nack) -> None:
        if answer.code != publish_batch.BEHIND if isinstance(answer, message.Nack) else True:
            self._order.answered(answer)
        self._link.send("down", b"", lambda _: self._sender.answered(answer))
        self._next()


DISASTERS = frozenset({"messaging", "hub", "cut", "crash", "restore"})
"""Messaging or the hub is killed, a link breaks, an edge is killed, an older copy of its disk is restored."""


class UpWorld:
    """``run`` plays ``steps`` bad steps and then a calm time.  Raises ``LawBroken``."""

    def __init__(
        self,
        seed: int,
        *,
        edges: int = 2,
        settles_before_ack: bool = False,
        takes_what_follows: bool = False,
        forgets_what_it_deferred: bool = False,
        forgets_what_is_out: bool = False,
        disasters: frozenset[str] = DISASTERS,
        max_bytes: int = 1 << 30,
        plans: bool = False,
        forgets_the_day: bool = False,
    ) -> None:
        """``plans``: the edges have budgets, windows and shares (``line_plan``, with laws of its own)."""
        self.random = Random(seed)
        self.now = 0.0
        self.calm = False
        self._disasters = disasters
        self._mistakes = {
            "takes_what_follows": takes_what_follows, "forgets_what_it_deferred": forgets_what_it_deferred,
        }  # fmt: skip
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self.topics = Topics(self.random, self.schedule, lambda: self.now)
        self.senders = [
            Sender(
                f"edge-{n}",
                self.random,
                self.schedule,
                lambda: self.now,
                settles_before_ack=settles_before_ack,
                forgets_what_is_out=forgets_what_is_out,
                max_bytes=max_bytes,
                plan=LinePlan(self.random, lambda: self.now, forgets=forgets_the_day) if plans else None,
            )
            for n in range(edges)
        ]
        self.links: dict[str, Link] = {}

    def schedule(self, due: float, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._timers, (due, self._order, action))

    def run(self, steps: int = 100) -> None:
        for _ in range(steps):
            self._advance(self.now + self.random.uniform(0.05, 0.6))
            self._misbehave()
        self.calm = self.topics.calm = True
        self._advance(self.now + CALM_SECONDS)
        for sender in self.senders:
            while run(sender.outbox.sweep(now=self.now, entire=True)):
                pass
        self._check()

    def _advance(self, until: float) -> None:
        while self.now < until:
            step = min(until, self.now + 0.25)
            while self._timers and self._timers[0][0] <= step:
                due, _, action = heapq.heappop(self._timers)
                self.now = max(self.now, due)
                action()
            self.now = step
            for sender in self.senders:
                if not sender.is_connected and (self.calm or self._happens(0.3)):
                    self._connect(sender)
                sender.step()

    def _happens(self, chance: float) -> bool:
        return self.random.random() < chance

    def _strikes(self, disaster: str, chance: float) -> bool:
        return self._happens(chance) and disaster in self._disasters

    def _misbehave(self) -> None:
        if self._strikes("messaging", 0.02):
            self.topics.kill()
        if self._happens(0.05):
            self.topics.step_clock()
        if self._happens(0.1):
            self.topics.fill()
        if self._strikes("hub", 0.01):  # kill -9 of the hub: every link breaks
            for sender in self.senders:
                self._break(sender)
        for sender in self.senders:
            for _ in range(self.random.choice([0, 0, 1, 2, 8])):
                sender.publish()
            if self._strikes("cut", 0.06):
                self._break(sender)
            if self._strikes("crash", 0.03):
                self._break(sender)
                sender.crash()
            if self._happens(0.03):
                sender.copy_disk()
            if self._strikes("restore", 0.01):
                self._break(sender)
                sender.restore_disk()
            if self._happens(0.1):
                run(sender.outbox.sweep(now=self.now, entire=self._happens(0.5)))

    # ---- link and hub ----------------------------------------------------------------------------

    def _connect(self, sender: Sender) -> None:
        link = Link(self.random, self.schedule, lambda: self.now)
        self.links[sender.name] = link
        chains: dict[tuple[str, str], Chain] = {}

        def arrived(header: message.Upstream, content: bytes) -> None:
            place = (header.stream, header.topic)
            if place not in chains:
                chains[place] = Chain(self.topics, sender, link, self.random, **self._mistakes)
            chains[place].accept(header, content)

        def up(header: message.Upstream, content: bytes) -> None:
            link.send("up", content, lambda frame: arrived(header, frame))

        sender.connected(self.random.choice([1, 2, 4]), up)

    def _break(self, sender: Sender) -> None:
        link = self.links.pop(sender.name, None)
        if link is not None:
            link.broken = True
        sender.disconnected()

    # ---- laws ------------------------------------------------------------------------------------

    def _check(self) -> None:
        seen: Counter[str] = Counter()
        for name in NAMES:
            rows = self.topics.rows(name)
            self._check_order(name, rows)
            seen.update(row["id"] for _, row in rows)
        for sender in self.senders:
            for id, expires in sender.accepted.items():
                if seen[id] > 1:
                    raise LawBroken(f"law 1: {id} is in the topic {seen[id]} times")
                if seen[id] == 0 and expires is None and id not in sender.excused and not self._evicted(sender):
                    raise LawBroken(f"law 1: {id} was accepted and is not in the topic")
            for queue in run(sender.outbox.status(now=self.now)).queues:
                if queue.length:
                    raise LawBroken(f"law 1: {sender.name} still has {queue.length} messages in {queue.queue}")
                ended = queue.sent + queue.expired + queue.evicted + queue.dead_lettered + queue.length
                if queue.accepted != ended:
                    raise LawBroken(f"law 6: {sender.name} {queue.queue}: accepted {queue.accepted}, ended {ended}")

            if not self._disasters & {"crash", "restore"}:
                self._check_books(sender, sum(seen[id] for id in sender.accepted))

    def _evicted(self, sender: Sender) -> int:
        return sum(queue.evicted for queue in run(sender.outbox.status(now=self.now)).queues)

    def _check_books(self, sender: Sender, arrived: int) -> None:
        """Law 7."""
        queues = run(sender.outbox.status(now=self.now)).queues
        sent, in_doubt = sum(queue.sent for queue in queues), sum(queue.in_doubt for queue in queues)
        if not sent <= arrived <= sent + in_doubt:
            raise LawBroken(f"law 7: {sender.name}: {arrived} in topics, {sent} sent, {in_doubt} in doubt")

    def _check_order(self, name: str, rows: list[tuple[bytes, dict[str, Any]]]) -> None:
        if any(first >= second for first, second in itertools.pairwise(id for id, _ in rows)):
            raise LawBroken(f"law 5: ids in {name} do not rise")
        reached: dict[tuple[str, int, str], int] = {}
        for _, row in rows:
            line = (row["node"], row["epoch"], row["stream"])
            if row["sequence"] <= reached.get(line, -1):
                raise LawBroken(f"law 5: in {name} {line} has {row['sequence']} after {reached[line]}")
            reached[line] = row["sequence"]
