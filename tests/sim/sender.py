"""One edge's upstream half in a simulated world: the real pump over the in-memory outbox.

The driver does what ``upstream_pump`` does, step by step, with time between the steps; power may fail between any
two.  The disk (the outbox) survives, the pump does not.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random

import msgspec
from tests.sim.edge import run
from tests.sim.laws import LawBroken
from tests.sim.line_plan import LinePlan
from tests.sim.topic import NAMES, NAMESPACE

from fairlead_edge.errors import StoreFull
from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.memory_outbox import MemoryOutbox
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.plan.gate import OPEN
from fairlead_edge.outbox.pump import pump
from fairlead_edge.outbox.pump.stream import EndpointState, Fetch, PumpWait, SendBatch, Settle
from fairlead_edge.outbox.queues import InFlight, QueueId, base, rank
from fairlead_edge.routes.endpoints import UPSTREAM
from fairlead_wire import message
from fairlead_wire.link import codec

PRIORITIES = (0, 1, 5, 2_000_000_000)
BODIES = (msgspec.Raw(b"1"), msgspec.Raw(b'"%b"' % Random(1).randbytes(3000).hex().encode()))
"""Small and large bodies that do not compress well, so that a link of unknown speed needs many batches."""
Answer = message.Ack | message.Nack


class Sender:
    """``send`` takes (header, content) frames up; ``answered`` brings the hub's answers back."""

    def __init__(
        self,
        name: str,
        random: Random,
        schedule: Callable[[float, Callable[[], None]], None],
        now: Callable[[], float],
        *,
        settles_before_ack: bool,
        forgets_what_is_out: bool = False,
        max_bytes: int = 1 << 30,
        plan: LinePlan | None = None,
    ) -> None:
        self.name = name
        self._plan = plan
        self.accepted: dict[str, float | None] = {}
        """Message id → when it expires, for messages that were acknowledged to an application."""
        self.excused: set[str] = set()
        """Messages accepted after the copy of the disk that was restored, and hence lost with the disk."""
        self._random = random
        self._schedule = schedule
        self._now = now
        self._settles_before_ack = settles_before_ack
        self._forgets_what_is_out = forgets_what_is_out
        self.refused = 0
        """How many publishes the full store refused."""
        self._minted = 0
        self._life = 0
        self._copy: tuple[MemoryOutbox, set[str]] | None = None
        self.outbox = MemoryOutbox(epoch=random.getrandbits(53), max_bytes=max_bytes)
        self._start()

    # ---- life ------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._life += 1
        self._send: Callable[[message.Upstream, bytes], None] | None = None
        self._flying: dict[int, SendBatch] = {}
        self._settling: dict[int, Settle] = {}
        self._busy = False
        self._is_away = False
        """Whether the last answer said that the hub accepts nothing."""
        self._next_id = 0
        plan = self._plan
        self.pump = pump.Pump(
            UPSTREAM,
            uniform=self._random.random,
            gate=OPEN if plan is None else plan.gate,
            floor_share=0.0 if plan is None else plan.floor_share,
            live_first_share=0.0 if plan is None else plan.live_first_share,
        )
        for queue in run(self.outbox.queues()):
            self.pump.found(queue, run(self.outbox.checkpoint(queue)))

    def crash(self) -> None:
        """A kill -9 or a power cut: the disk is opened again, with a new epoch."""
        self.outbox.epoch = self._random.getrandbits(53)
        self.outbox.in_flight = InFlight()
        if self._plan is not None:
            self._plan.crash()
        self._start()

    def copy_disk(self) -> None:
        self._copy = (copy.deepcopy(self.outbox), set(self.accepted))

    def restore_disk(self) -> None:
        """An older copy is restored: what was accepted since is lost, what was sent since is sent again."""
        if self._copy is None:
            return
        outbox, known = self._copy
        self.excused |= self.accepted.keys() - known
        self.outbox = copy.deepcopy(outbox)
        self.crash()

    # ---- the application -------------------------------------------------------------------------

    def publish(self) -> None:
        self._minted += 1
        id = f"{self.name}-{self._life}-{self._minted}"
        priority = self._random.choice(PRIORITIES)
        ttl = self._random.choice([None, None, None, 5.0, 60.0])
        stored = envelope.StoredMessage(
            id=id, source="/messages", enqueued_at="2026-11-20T00:00:00Z", properties={}, system_properties={},
            body=self._random.choice(BODIES),
        )  # fmt: skip
        queue = self.pump.lane(QueueId(UPSTREAM, priority))
        reference = Reference(queue, ttl, f"{NAMESPACE}/{self._random.choice(NAMES)}")
        try:
            run(self.outbox.append([Entry(id, envelope.stored(stored), (reference,))], now=self._now(), evict=True))
        except StoreFull:
            self.refused += 1
            return
        self.accepted[id] = None if ttl is None else self._now() + ttl
        self.pump.appended(queue.priority)
        self.step()

    # ---- the link --------------------------------------------------------------------------------

    def connected(self, window: int, send: Callable[[message.Upstream, bytes], None]) -> None:
        self._send = send
        self.pump.link_up(window)
        self.step()

    def disconnected(self) -> None:
        if self._send is None:
            return
        self._send = None
        for id in list(self._flying):
            send = self._flying.pop(id)
            self._give_back(send.queue, [item.offset for item in send.items], in_doubt=True)
            self.pump.lost(send.batch)
        self.pump.link_down()

    @property
    def is_connected(self) -> bool:
        return self._send is not None

    def answered(self, answer: Answer) -> None:
        send = self._flying.pop(answer.parent_id, None)
        if send is None:
            return
        self._is_away = isinstance(answer, message.Nack) and answer.scope == "hub"
        settle = self.pump.answered(send.batch, answer, self._now())
        done = {*settle.sent, *(refusal.offset for refusal in settle.refused)} if settle is not None else set()
        doubtful = pump.doubtful(send.items, answer)
        again = {item.offset for item in send.items} - done
        self._give_back(send.queue, sorted(again - doubtful))
        self._give_back(send.queue, sorted(again & doubtful), in_doubt=True)
        if settle is not None:
            self._settle(settle)
        self.step()

    # ---- the pump's driver -----------------------------------------------------------------------

    def step(self) -> None:
        """Do what the pump asks for, unless that is under way."""
        if self._busy or self._send is None:
            return
        if self._plan is not None:
            self._plan.look()
        step = self.pump.next(self._now())
        if isinstance(step, PumpWait):
            return
        self._check_nothing_urgent_waits(step)
        self._busy = True
        life = self._life

        def fetched() -> None:
            if self._life != life:
                return
            self._busy = False
            items = run(
                self.outbox.fetch(
                    step.queue,
                    after=step.after,
                    now=self._now(),
                    messages_max=step.messages_max,
                    bytes_max=step.bytes_max,
                    leaving=True,
                )
            )
            wanted = self.pump.fetched(step, items, self._now())
            if not isinstance(wanted, Settle):
                leaves = {item.offset for item in wanted.items} if wanted else set()
                stays = [item.offset for item in items if item.offset not in leaves]
                self._give_back(step.queue, self.pump.not_in_batch(step.queue, stays))
            match wanted:
                case SendBatch() as send:
                    self._deliver(send)
                case Settle() as settle:
                    self._settle(settle)
            self.step()

        self._schedule(self._now() + self._random.uniform(0.0005, 0.02), fetched)

    def _give_back(self, queue: QueueId, offsets: list[int], *, in_doubt: bool = False) -> None:
        self.outbox.in_flight.release(queue, offsets, in_doubt=in_doubt)

    def _deliver(self, send: SendBatch) -> None:
        if self._forgets_what_is_out:  # the planted mistake: sweep and evict take what is in flight
            self.outbox.in_flight = InFlight()
        if self._send is None:
            self._give_back(send.queue, [item.offset for item in send.items])
            self.pump.lost(send.batch)
            return
        if len({item.offset for item in send.items}) != len(send.items):
            raise LawBroken(f"law 3: a batch holds an offset twice: {send}")
        if any(item.expires is not None and item.expires <= self._now() for item in send.items):
            raise LawBroken(f"law 4 at {self._now():.2f}: an expired message was sent")
        self._next_id += 1
        self._flying[self._next_id] = send
        encoding, content = codec.pack(envelope.upstream(send.queue, send.items))
        self.pump.packed(send.batch, len(content), self._now())
        if self._plan is not None:
            self._plan.left(base(send.queue.priority), len(content), self.pump.bytes_in_flight)
        if self._settles_before_ack:
            # The planted mistake: forget the messages as soon as they are sent.
            offsets = tuple(item.offset for item in send.items)
            run(self.outbox.settle(send.queue, sent=offsets, checkpoint=max(offsets), at=""))
        stream = str(send.queue)
        header = message.Upstream(
            id=self._next_id, stream=stream, topic=send.topic, encoding=encoding, follows=send.follows
        )
        self._send(header, content)

    def _settle(self, settle: Settle) -> None:
        life = self._life
        self._settling[settle.batch] = settle

        def settled() -> None:
            if self._life != life:
                return
            run(
                self.outbox.settle(
                    settle.queue, sent=settle.sent, refused=settle.refused, checkpoint=settle.checkpoint, at=""
                )
            )
            del self._settling[settle.batch]
            self.pump.settled(settle.batch)
            self.step()

        self._schedule(self._now() + self._random.uniform(0.0005, 0.05), settled)

    def _check_nothing_urgent_waits(self, fetch: Fetch) -> None:
        """Law 2: no batch is sent while something more urgent could be sent."""
        handed_out = {(send.queue, item.offset) for send in self._flying.values() for item in send.items}
        handed_out |= {(settle.queue, offset) for settle in self._settling.values() for offset in settle.sent}
        settling = {settle.queue for settle in self._settling.values()}
        for queue in run(self.outbox.queues()):
            if rank(queue.priority) >= rank(fetch.queue.priority):
                continue
            done = run(self.outbox.checkpoint(queue))
            waiting = run(self.outbox.fetch(queue, after=done, now=self._now(), messages_max=1000, bytes_max=1 << 30))
            deferred = self.pump.deferred_topics(queue.priority)
            left = [item for item in waiting if (queue, item.offset) not in handed_out and item.topic not in deferred]
            is_free = queue not in settling and self.pump.state(queue.priority) is EndpointState.IDLE
            if self._plan is not None:  # what is held may be passed over, and what has a share may pass
                if self._plan.gate.held(base(queue.priority), self.pump.bytes_in_flight, self._now()) is not None:
                    continue
                is_free = is_free and not (self._plan.floor_share or self._plan.live_first_share)
            if left and (self._is_away or is_free):
                raise LawBroken(
                    f"law 2 at {self._now():.2f}: {self.name} goes on with {fetch.queue} while {queue} has {len(left)}"
                )
