"""One node's session: brings the edge from what it holds to what it should hold, and says what became of it.

    offer(key) ─▶ NodeQueue ─▶ frames() ─▶ window ─▶ ack    ─▶ Acked | Removed
                     ▲                        ├──▶ nack   ─▶ retry, or Parked at once when permanent
                     └── retry after a delay ─┴──▶ lapse  ─▶ retry, or Parked after the last one

Pure: frames come in with the time, frames go out when the link has room (``frames``), and what happened is left in
``outcomes`` for the hub's records.  At most one message in flight per key.  A disconnect throws the whole session
away: it consumes no retry, and the next hello tells what was stored (seed: reliable message delivery, "At-Least-Once").
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead_hub.cluster.content import ContentId, Held, LiveObject
from fairlead_hub.cluster.desired_state import View
from fairlead_hub.cluster.placement import Desired
from fairlead_hub.delivery import frames
from fairlead_hub.delivery.anti_entropy import AntiEntropy
from fairlead_hub.delivery.backoff import Backoff
from fairlead_hub.delivery.deletion_guard import DeletionGuard
from fairlead_hub.delivery.delivery_events import (
    Acked,
    Compared,
    Outcome,
    Parked,
    Recovered,
    Removed,
    Retried,
    Unparked,
)
from fairlead_hub.delivery.frames import Frame
from fairlead_hub.delivery.in_flight import InFlight, InFlightMessage, Settled
from fairlead_hub.delivery.work_queue import WorkQueue
from fairlead_hub.settings import Delivery, Reconcile, WindowLimits
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.session import Role, Session, State, Timer

FORGET_PRIORITY = 5
"""Deletes go with the ordinary traffic: an object nobody wants any more is no reason to delay one that is wanted."""


class NodeSession:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    __slots__ = (
        "_control",
        "_held_max",
        "_limits",
        "_opening",
        "_policy",
        "_view",
        "brake",
        "closing",
        "flights",
        "frozen",
        "held",
        "hello",
        "hold",
        "link",
        "live",
        "node",
        "noted",
        "number",
        "outcomes",
        "patience",
        "pending_since",
        "queue",
        "withheld",
    )

    def __init__(
        self,
        *,
        node: str,
        number: int,
        hello: message.Hello,
        view: View,
        limits: WindowLimits,
        policy: Delivery,
        reconcile: Reconcile,
        held_max: int,
        keepalive_seconds: float,
        now: float,
        hold: str = "",
        brake: DeletionGuard | None = None,
    ) -> None:
        self.node = node
        self.number = number
        self.hello = hello
        self.hold = hold
        """Why nothing about objects is sent now; empty: it is."""
        self.brake = brake
        self.link = Session(Role.HUB, now=now, keepalive_seconds=keepalive_seconds)
        self.held: dict[str, Held] = {}
        self.frozen: dict[str, str] = {}
        """Held, not wanted, but not to be deleted yet: key → why."""
        self.withheld: dict[str, str] = {}
        """Wanted, not to be sent yet: key → why.  Whoever ends the reason offers it again."""
        self.pending_since: dict[str, float] = {}
        """Keys on their way, oldest first."""
        self.noted: dict[str, tuple[str, str]] = {}
        """Keys with a record about something the edge does not hold (parked, lagging) → its UID and path."""
        self.outcomes: list[Outcome] = []
        self.live = False
        """The comparison is over: ``held`` is true, changes flow."""
        self.closing: message.Refuse | None = None
        self._view = view
        self._limits = limits
        self._policy = policy
        self._held_max = held_max
        self.queue = WorkQueue()
        self.flights = InFlight(limits)
        self.patience = Backoff(node, reconcile)
        self._control: list[Frame] = []
        self._opening: AntiEntropy | None = None

    # ---- opening ---------------------------------------------------------------------------------

    def welcome(self, header: message.Welcome, now: float) -> None:
        """After a hello that was accepted: greet, and compare as soon as it is known what the node should hold."""
        self.link.received(self.hello, now)
        self.say(header)
        self._opening = AntiEntropy(self.hello, self._view, held_max=self._held_max, take_id=self.link.take_id)
        self.try_compare()

    def try_compare(self) -> None:
        """Start the comparison if the cluster's state is known; otherwise it waits for the next call."""
        if self._opening is not None:
            self._ask(self._opening, self._opening.begin())

    def _ask(self, opening: AntiEntropy, question: message.Compare | message.ListBuckets | None) -> None:
        if question is not None:
            self.say(question)
        if opening.held is not None:
            self._opening = None
            self.held = opening.held
            self.live = True
            differences = self.audit(self.link.last_received)
            self.outcomes.append(Compared(divergent_buckets=opening.divergent_buckets, differences=differences))

    @property
    def waiting_for(self) -> str:
        """Why the comparison has not begun; empty when it has."""
        return self._opening.waiting_for if self._opening is not None else ""

    def audit(self, now: float) -> int:
        """Queue every difference between what is held and what is wanted; returns how many there are.

        Asked after the comparison, when rules or labels changed, and when a watch has become certain.
        """
        if not self.live:
            return 0
        wanted = self._view.wanted(self.node)
        unwanted = self.held.keys() - wanted.keys()
        if self.brake is not None:
            self.brake.set_due(unwanted)
        differing = [key for key, live in wanted.items() if not _same(self.held.get(key), live)]
        differing += sorted(unwanted)
        # What was kept or late and is right again has to be told, too.
        for key in [*differing, *sorted(self.frozen.keys() | self.noted.keys())]:
            self.offer(key, now)
        return len(differing)

    def take_events(self) -> list[Outcome]:
        """What became of deliveries since the last call; each is given out once."""
        events, self.outcomes = self.outcomes, []
        return events

    def pause(self, why: str, now: float) -> None:
        """Send nothing about objects from now on, for this reason; empty: go on."""
        self.hold = why
        self.audit(now)

    def reported(self, key: str, uid: str, path: str) -> None:
        """The status of this object at this node says that it is late or kept; it is set right when that is over."""
        self.noted[key] = (uid, path)

    # ---- changes in the cluster ------------------------------------------------------------------

    def offer(self, key: str, now: float) -> None:
        """Something about this key may have changed; what exactly is looked up when it is sent."""
        if not self.live:
            return
        wish = self._view.wish(self.node, key)
        held = self.held.get(key)
        if self.brake is not None:
            (self.brake.add if wish is None and held is not None else self.brake.drop)(key)
        noted = self.noted.get(key)
        if noted is not None and (wish is None or wish.live.uid != noted[0]):
            self._unnote(key)
        if key not in self.flights and _is(held, wish):
            self._forget(key)
            return
        parked = self.parked.get(key)
        if parked is not None:
            if parked.content_id == _content_id(wish, held):
                return
            self._unpark(key, "newer" if wish else "unwanted")
        if self.queue.is_waiting(key) and self.patience.is_retrying(key, _content_id(wish, held)):
            return
        self.patience.renew(key)
        self.pending_since.setdefault(key, now)
        self.queue.add(key, wish.priority if wish else FORGET_PRIORITY)

    # ---- sending ---------------------------------------------------------------------------------

    def frames(self, now: float, limit: int) -> list[Frame]:
        """At most about ``limit`` frames to send now, in this order.  Call again when the link has room."""
        out = self._control
        self._control = []
        if self.live and self.closing is None and not self.hold:
            while len(out) < limit and self.flights.has_room:
                key = self.queue.get(now)
                if key is None:
                    break
                out.extend(self._message(key, now))
        if self.closing is not None and self.link.state is not State.CLOSED:
            out.append((self.closing, b""))
        for header, _ in out:
            self.link.sent(header, now)
        return out

    def _message(self, key: str, now: float) -> Iterator[Frame]:
        wish = self._view.wish(self.node, key)
        held = self.held.get(key)
        if _is(held, wish):
            self.queue.done(key)
            self._forget(key)
            return
        if wish is None:
            assert held is not None
            doubt = self._view.doubt(self.node, held.path)
            if not doubt and self.brake is not None:
                doubt = self.brake.objection(key, now)
            if doubt:
                # Offered again by the audit that follows when the watch becomes certain, or the brake is released.
                self.queue.done(key)
                self._forget(key)
                self.frozen[key] = doubt
                return
            flight = InFlightMessage(key=key, uid=held.uid, path=held.path, held=None, policy=self._policy)
            yield frames.delete(self._launch(flight, len(held.path), now), held)
            return
        live = wish.live
        self.frozen.pop(key, None)
        if why := self._view.withheld(self.node, key):
            self.queue.done(key)
            self.withheld[key] = why
            return
        self.withheld.pop(key, None)
        flight = InFlightMessage(key=key, uid=live.uid, path=live.path, held=live.held, policy=wish.delivery)
        if live.problem is not None:
            self._failed(flight, live.problem.code, live.problem.reason, now, permanent=True)
            return
        id = self._launch(flight, len(live.content), now, in_parts=frames.parts(live, self._limits.chunk_bytes) > 0)
        yield from frames.update(id, live, self._limits.chunk_bytes)

    def _launch(self, flight: InFlightMessage, size: int, now: float, *, in_parts: bool = False) -> int:
        id = self.link.take_id()
        self.flights.launch(id, flight, size, now, in_parts=in_parts)
        return id

    def say(self, header: message.FromHub) -> None:
        """Send this before anything else (acks and nacks of what came up)."""
        self._control.append((header, b""))

    def refuse(self, header: message.Refuse) -> None:
        """End the session with a reason; nothing else is sent after it."""
        self.closing = header

    @property
    def has_frames(self) -> bool:
        """Is there anything to send now, as far as the window allows?"""
        if self._control or (self.closing is not None and self.link.state is not State.CLOSED):
            return True
        return self.live and not self.hold and self.queue.has_ready and self.flights.has_room

    # ---- what the edge says ----------------------------------------------------------------------

    def heard(self, header: message.FromEdge, now: float) -> None:
        """A frame that is not ours to answer (upstream, status) came in: the edge is there."""
        self.link.received(header, now)

    def receive(self, header: message.FromEdge, content: bytes, now: float) -> None:
        """One frame.  Raises ``Malformed`` when it may not come now.  Upstream and status are the hub's, not ours."""
        self.link.received(header, now)
        match header:
            case message.Ack():
                for landing in self.flights.acked(header.parent_id, cumulative=header.cumulative, now=now):
                    self._landed(landing, now)
            case message.Nack():
                flight = self.flights.nacked(header.parent_id, now)
                if flight is not None:
                    after = header.retry_after
                    self._failed(flight, header.code, header.reason, now, permanent=header.permanent, after=after)
            case message.Progress():
                self.flights.progressed(header.parent_id, now)
            case message.Keepalive():
                self.say(message.Keepalive())
            case message.Buckets() | message.Entries():
                if self._opening is None:
                    raise Malformed("no comparison was asked for")
                self._ask(self._opening, self._opening.heard(header, content))
            case _:
                raise Malformed(f"{type(header).__name__.lower()} is not for this session")

    def _landed(self, landing: Settled, now: float) -> None:
        flight = landing.flight
        key = flight.key
        held = self.held.get(key)
        if flight.held is not None:
            if held is not None and held.uid != flight.held.uid:
                # A new object under an old name: the edge dropped the old one in the same commit, so its record goes.
                self.outcomes.append(Removed(key=key, uid=held.uid, path=held.path))
            self.held[key] = flight.held
            since = self.pending_since.get(key, now)
            self.outcomes.append(Acked(key=key, held=flight.held, seconds=now - since))
        else:
            if held is not None and held.uid == flight.uid:
                del self.held[key]
            self.outcomes.append(Removed(key=key, uid=flight.uid, path=flight.path))
            if self.brake is not None and key not in self.held:
                self.brake.drop(key)
        self.patience.renew(key)
        if landing.last:
            self.queue.done(key)
        if key in self.flights:
            return
        if _is(self.held.get(key), self._view.wish(self.node, key)):
            # Also when only the answer was slow and a retry or a parking was already arranged.
            self._forget(key)
        elif not self.queue.is_queued(key):
            self.offer(key, now)

    # ---- failures --------------------------------------------------------------------------------

    @property
    def parked(self) -> dict[str, Parked]:
        return self.patience.parked

    def _failed(
        self,
        flight: InFlightMessage,
        code: str,
        reason: str,
        now: float,
        *,
        permanent: bool = False,
        after: float | None = None,
    ) -> None:
        key = flight.key
        self.queue.done(key)
        if self.queue.is_queued(key):
            # Something newer is queued already: it goes now, with all its retries.
            self.patience.renew(key)
            return
        delay = None if permanent else self.patience.failed(key, flight.policy, flight.content_id, after)
        if delay is None:
            self._park(flight, code, reason, now)
            return
        self.queue.add_after(key, self._priority(key), now + delay)
        self.outcomes.append(Retried(key=key, code=code))

    def _park(self, flight: InFlightMessage, code: str, reason: str, now: float) -> None:
        key = flight.key
        self.pending_since.pop(key, None)
        self.noted[key] = (flight.uid, flight.path)
        parked = Parked(
            key=key,
            content_id=flight.content_id,
            path=flight.path,
            code=code,
            reason=reason[: message.REASON_CHARS_MAX],
            retries=self.patience.retries(key),
            next_retry_at=now,
        )
        self.outcomes.append(self.patience.park(parked, now))

    def _priority(self, key: str) -> int:
        wish = self._view.wish(self.node, key)
        return wish.priority if wish else FORGET_PRIORITY

    def _unpark(self, key: str, why: str) -> None:
        parked = self.patience.unpark(key, scheduled=why == "schedule")
        self.outcomes.append(Unparked(key=key, uid=parked.uid, path=parked.path, why=why))

    def _forget(self, key: str) -> None:
        """Nothing is to be done for this key."""
        self.pending_since.pop(key, None)
        self._unnote(key)
        self.frozen.pop(key, None)
        self.withheld.pop(key, None)
        self.patience.forget(key)
        if key in self.parked:
            self._unpark(key, "unwanted")

    def _unnote(self, key: str) -> None:
        """What was noted about this key is over; a record of something the edge never got goes with it."""
        noted = self.noted.pop(key, None)
        held = self.held.get(key)
        if noted is not None:
            gone = held is None or held.uid != noted[0]
            self.outcomes.append(Removed(key=key, uid=noted[0], path=noted[1]) if gone else Recovered(key=key))

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: float) -> bool:
        """What time asks for.  False: the peer is silent, close the connection."""
        if self.link.tick(now) is Timer.PEER_SILENT:
            return False
        for flight in self.flights.lapsed(now):
            self._failed(flight, "timeout", f"no ack within {flight.policy.ack_timeout:g} s", now)
        self.queue.wake(now)
        for key in () if self.hold else self.patience.due(now):
            self._unpark(key, "schedule")
            self.pending_since.setdefault(key, now)
            self.queue.add(key, self._priority(key))
        return True

    def next_tick(self) -> float:
        """When ``tick`` or ``frames`` may have something to do without a frame or a change coming in."""
        due = [self.link.next_tick(), self.flights.next_deadline()]
        if not self.hold:  # else what is due would be due all the time, and nothing may be done about it
            due += self.queue.next_due(), self.patience.next_due()
        return min(at for at in due if at is not None)


def _is(held: Held | None, wish: Desired | None) -> bool:
    """The edge has exactly what is wanted."""
    return held is None if wish is None else _same(held, wish.live)


def _same(held: Held | None, live: LiveObject) -> bool:
    return held is not None and held.digest == live.digest and held.uid == live.uid


def _content_id(wish: Desired | None, held: Held | None) -> ContentId | None:
    """What would be sent, or deleted; None: nothing."""
    if wish is not None:
        return wish.live.content_id
    return ContentId(held.uid, "") if held is not None else None
