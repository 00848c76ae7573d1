"""One node's session: brings the edge from what it holds to what it should hold, and says what became of it.

    offer(key) ─▶ queued ─▶ frames() ─▶ in flight ─▶ ack    ─▶ Acked | Removed
                     ▲                        ├──▶ nack   ─▶ retry, or Parked at once when permanent
                     └── retry after a delay ─┴──▶ lapse  ─▶ retry, or Parked after the last one

Pure: frames come in with the time, frames go out when the link has room (``frames``), and what happened is left in
``outcomes`` for the hub.  At most one message in flight per key; where each key is stands in ``unsynced``, and a key
that is in sync has nothing there.  A disconnect throws the whole session away: it consumes no retry, and the next hello
tells what was stored (seed: reliable message delivery, "At-Least-Once").
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead_hub.cluster.content import ContentId, Held, LiveObject
from fairlead_hub.cluster.desired_state import View
from fairlead_hub.cluster.placement import Desired
from fairlead_hub.delivery import backoff, frames
from fairlead_hub.delivery.anti_entropy import AntiEntropy
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
from fairlead_hub.delivery.in_flight import Answered, InFlightMessage, InFlightWindow
from fairlead_hub.delivery.key_state import (
    Backoff,
    Cause,
    ImpossibleTransition,
    InFlight,
    KeyState,
    Queued,
    Reported,
    State,
    Withheld,
    is_pending,
)
from fairlead_hub.delivery.unsynced_keys import UnsyncedKeys
from fairlead_hub.settings import Delivery, Reconcile, WindowLimits
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.session import Role, Session, Timer
from fairlead_wire.session import State as LinkState

FORGET_PRIORITY = 5
"""Deletes go with the ordinary traffic: an object nobody wants any more is no reason to delay one that is wanted."""


class NodeSession:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    __slots__ = (
        "_control",
        "_fault",
        "_held_max",
        "_limits",
        "_opening",
        "_policy",
        "_reconcile",
        "_view",
        "brake",
        "closing",
        "flights",
        "held",
        "hello",
        "hold",
        "link",
        "live",
        "node",
        "number",
        "outcomes",
        "unsynced",
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
        self.unsynced = UnsyncedKeys()
        self.outcomes: list[Outcome] = []
        self.live = False
        """The comparison is over: ``held`` is true, changes flow."""
        self.closing: message.Refuse | None = None
        self._fault: ImpossibleTransition | None = None
        self._view = view
        self._limits = limits
        self._policy = policy
        self._held_max = held_max
        self._reconcile = reconcile
        self.flights = InFlightWindow(limits)
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
        found = set(differing)
        for key in [*differing, *(key for key in self.unsynced if key not in found)]:
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
        record = self.unsynced.get(key)
        if record is not None:
            record.reported = Reported(uid, path)

    # ---- changes in the cluster ------------------------------------------------------------------

    def offer(self, key: str, now: float) -> None:
        """Something about this key may have changed; what exactly is looked up when it is sent."""
        if not self.live:
            return
        try:
            self._consider(key, now)
        except ImpossibleTransition as error:
            self._break(error)

    def _consider(self, key: str, now: float) -> None:
        wish = self._view.wish(self.node, key)
        held = self.held.get(key)
        if self.brake is not None:
            (self.brake.add if wish is None and held is not None else self.brake.drop)(key)
        record = self.unsynced.get(key)
        if record is None:
            if not _is(held, wish):
                self.unsynced.move(key, "offered", Queued(_priority(wish)), now)
            return
        if record.reported is not None and (wish is None or wish.live.uid != record.reported.uid):
            self._end_report(key, record)
        if type(record.state) is not InFlight and _is(held, wish):
            self._match(key, record)
        else:
            self._offer_again(key, record, wish, _content_id(wish, held), now)

    def _offer_again(
        self, key: str, record: KeyState, wish: Desired | None, content_id: ContentId | None, now: float
    ) -> None:
        """An offer of what failed, or is in flight, takes nothing from its retries; anything newer begins anew."""
        priority = _priority(wish)
        is_newer = record.failures is None or record.failures.content_id != content_id
        if is_newer:
            record.failures = None
        match record.state:
            case Queued(priority=before):
                if priority < before:
                    self.unsynced.move(key, "offered", Queued(priority), now)
            case InFlight(id=id, content_id=sent, again=again):
                if again is not None or sent != content_id:
                    again = priority if again is None else min(again, priority)
                    self.unsynced.move(key, "offered", InFlight(id, sent, again), now)
            case Parked() as parked:
                if is_newer:
                    self._unparked(parked, "newer" if wish is not None else "unwanted")
                    self.unsynced.move(key, "offered", Queued(priority), now)
            case Backoff():
                if is_newer:
                    self.unsynced.move(key, "offered", Queued(priority), now)
            case Withheld():
                self.unsynced.move(key, "offered", Queued(priority), now)

    def _break(self, error: ImpossibleTransition) -> None:
        """A mistake of ours about one key.  It is raised where only this node's session ends by it: in ``frames``."""
        self.live = False
        self._fault = error

    # ---- sending ---------------------------------------------------------------------------------

    def frames(self, now: float, limit: int) -> list[Frame]:
        """At most about ``limit`` frames to send now, in this order.  Call again when the link has room.

        Raises ``ImpossibleTransition``: end the session; the node comes back and is compared.
        """
        if self._fault is not None:
            raise self._fault
        out = self._control
        self._control = []
        if self.live and self.closing is None and not self.hold:
            self._wake(now)
            while len(out) < limit and self.flights.has_room:
                key = self.unsynced.first_queued()
                if key is None:
                    break
                out.extend(self._message(key, now))
        if self.closing is not None and self.link.state is not LinkState.CLOSED:
            out.append((self.closing, b""))
        for header, _ in out:
            self.link.sent(header, now)
        return out

    def _message(self, key: str, now: float) -> Iterator[Frame]:
        wish = self._view.wish(self.node, key)
        held = self.held.get(key)
        if _is(held, wish):
            self._match(key, self.unsynced.pending[key])
            return
        if wish is None:
            assert held is not None
            if withheld := self._withheld_deletion(key, held, now):
                self._keep(key, withheld, now)
                return
            deletion = InFlightMessage(key=key, uid=held.uid, path=held.path, held=None, policy=self._policy)
            yield frames.delete(self._sent(deletion, len(held.path), now), held)
            return
        live = wish.live
        if why := self._view.withheld(self.node, key):
            self.unsynced.move(key, "withheld", Withheld(Cause.NOT_GRANTED, why), now)
            return
        update = InFlightMessage(key=key, uid=live.uid, path=live.path, held=live.held, policy=wish.delivery)
        if live.problem is not None:
            self._park(update, live.problem.code, live.problem.reason, now)
            return
        id = self._sent(update, len(live.content), now, in_parts=frames.parts(live, self._limits.chunk_bytes) > 0)
        yield from frames.update(id, live, self._limits.chunk_bytes)

    def _sent(self, sent: InFlightMessage, size: int, now: float, *, in_parts: bool = False) -> int:
        id = self.link.take_id()
        self.unsynced.move(sent.key, "sent", InFlight(id, sent.content_id), now)
        self.flights.sent(id, sent, size, now, in_parts=in_parts)
        return id

    def _withheld_deletion(self, key: str, held: Held, now: float) -> Withheld | None:
        if why := self._view.doubt(self.node, held.path):
            return Withheld(Cause.DELETION_BLOCKED, why)
        if self.brake is not None and (why := self.brake.objection(key, now)):
            return Withheld(Cause.DELETION_GUARD, why)
        return None

    def _keep(self, key: str, withheld: Withheld, now: float) -> None:
        """Offered again by the audit that follows when the watch becomes certain, or the brake is released."""
        record = self.unsynced.pending[key]
        self._end_report(key, record)
        record.failures = None
        self.unsynced.move(key, "withheld", withheld, now)

    def say(self, header: message.FromHub) -> None:
        """Send this before anything else (acks and nacks of what came up)."""
        self._control.append((header, b""))

    def refuse(self, header: message.Refuse) -> None:
        """End the session with a reason; nothing else is sent after it."""
        self.closing = header

    @property
    def has_frames(self) -> bool:
        """Is there anything to send now, as far as the window allows?"""
        if self._control or self._fault is not None:
            return True
        if self.closing is not None and self.link.state is not LinkState.CLOSED:
            return True
        return self.live and not self.hold and self.unsynced.has_queued and self.flights.has_room

    # ---- what the edge says ----------------------------------------------------------------------

    def heard(self, header: message.FromEdge, now: float) -> None:
        """A frame that is not ours to answer (upstream, status) came in: the edge is there."""
        self.link.received(header, now)

    def receive(self, header: message.FromEdge, content: bytes, now: float) -> None:
        """One frame.  Raises ``Malformed`` when it may not come now.  Upstream and status are the hub's, not ours."""
        self.link.received(header, now)
        match header:
            case message.Ack():
                for answered in self.flights.acked(header.parent_id, cumulative=header.cumulative, now=now):
                    self._acked(answered, now)
            case message.Nack():
                refused = self.flights.nacked(header.parent_id, now)
                if refused is not None:
                    after = header.retry_after
                    self._failed(refused, header.code, header.reason, now, permanent=header.permanent, after=after)
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

    def _acked(self, answered: Answered, now: float) -> None:
        acked = answered.message
        key = acked.key
        held = self.held.get(key)
        record = self.unsynced.get(key)
        if acked.held is not None:
            if held is not None and held.uid != acked.uid:
                # A new object under an old name: the edge dropped the old one in the same commit, so its record goes.
                self.outcomes.append(Removed(key=key, uid=held.uid, path=held.path))
            self.held[key] = acked.held
            seconds = now - record.since if record is not None and is_pending(record.state) else 0.0
            self.outcomes.append(Acked(key=key, held=acked.held, seconds=seconds))
        else:
            if held is not None and held.uid == acked.uid:
                del self.held[key]
            self.outcomes.append(Removed(key=key, uid=acked.uid, path=acked.path))
            if self.brake is not None and key not in self.held:
                self.brake.drop(key)
        if record is None:
            self.offer(key, now)
            return
        is_current = _is_current(record, answered.id)
        if type(record.state) is InFlight and not is_current:
            return
        wish = self._view.wish(self.node, key)
        if _is(self.held.get(key), wish):
            # Also when only the answer was slow and a retry or a parking was already arranged.
            self._match(key, record)
            return
        if is_current:
            self._supersede(key, record, now)
        self.offer(key, now)

    def _supersede(self, key: str, record: KeyState, now: float) -> None:
        """It was answered, and something newer is wanted: that goes at once, with all its retries."""
        state = record.state
        assert isinstance(state, InFlight)
        record.failures = None
        priority = self._priority(key) if state.again is None else state.again
        self.unsynced.move(key, "superseded", Queued(priority), now)

    # ---- failures --------------------------------------------------------------------------------

    @property
    def parked(self) -> dict[str, Parked]:
        return self.unsynced.parked()

    def _failed(
        self,
        answered: Answered,
        code: str,
        reason: str,
        now: float,
        *,
        permanent: bool = False,
        after: float | None = None,
    ) -> None:
        """A send was refused or not answered; of an older send of the key that says nothing any more."""
        failed = answered.message
        key = failed.key
        record = self.unsynced.get(key)
        if record is None or not _is_current(record, answered.id):
            return
        assert isinstance(record.state, InFlight)
        if record.state.again is not None:
            self._supersede(key, record, now)
            return
        content_id = record.state.content_id
        failures = None
        if not permanent:
            failures = backoff.retry(
                record.failures, content_id, failed.policy, node=self.node, key=key, retry_after=after
            )
        if failures is None:
            self._park(failed, code, reason, now)
            return
        record.failures = failures
        due = now + failures.previous
        self.unsynced.move(key, "failed", Backoff(due, failures.retries), now)
        self.outcomes.append(Retried(key=key, code=code))

    def _park(self, given_up: InFlightMessage, code: str, reason: str, now: float) -> None:
        record = self.unsynced.pending[given_up.key]
        retries = record.failures.retries if record.failures is not None else 0
        record.failures, seconds = backoff.park(record.failures, given_up.content_id, self._reconcile)
        record.reported = Reported(given_up.uid, given_up.path)
        parked = Parked(
            key=given_up.key,
            content_id=given_up.content_id,
            path=given_up.path,
            code=code,
            reason=reason[: message.REASON_CHARS_MAX],
            retries=retries,
            next_retry_at=now + seconds,
        )
        self.unsynced.move(given_up.key, "gave up", parked, now)
        self.outcomes.append(parked)

    def _priority(self, key: str) -> int:
        return _priority(self._view.wish(self.node, key))

    def _unparked(self, parked: Parked, why: str) -> None:
        self.outcomes.append(Unparked(key=parked.key, uid=parked.uid, path=parked.path, why=why))

    def _match(self, key: str, record: KeyState) -> None:
        """The edge holds what is wanted: nothing is to be done for this key."""
        if type(record.state) is Parked:
            self._unparked(record.state, "unwanted")
        if record.reported is not None:
            self._end_report(key, record)
        self.unsynced.matched(key)

    def _end_report(self, key: str, record: KeyState) -> None:
        """What was reported of this key is over; a record of something the edge never got goes with it."""
        reported, record.reported = record.reported, None
        held = self.held.get(key)
        if reported is not None:
            gone = held is None or held.uid != reported.uid
            self.outcomes.append(Removed(key=key, uid=reported.uid, path=reported.path) if gone else Recovered(key=key))

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: float) -> bool:
        """What time asks for.  False: the peer is silent, close the connection."""
        if self.link.tick(now) is Timer.PEER_SILENT:
            return False
        try:
            for lapsed in self.flights.lapsed(now):
                self._failed(lapsed, "timeout", f"no ack within {lapsed.message.policy.ack_timeout:g} s", now)
            if not self.hold:
                self._wake(now)
        except ImpossibleTransition as error:
            self._break(error)
        return True

    def _wake(self, now: float) -> None:
        """What has waited long enough is queued: retries, and what was parked."""
        for key in self.unsynced.due(now):
            state = self.unsynced.state(key)
            if isinstance(state, Parked):
                self._unparked(state, "schedule")
            self.unsynced.move(key, "due", Queued(self._priority(key)), now)

    def next_tick(self) -> float:
        """When ``tick`` or ``frames`` may have something to do without a frame or a change coming in."""
        due = [self.link.next_tick(), self.flights.next_deadline()]
        if not self.hold:  # else what is due would be due all the time, and nothing may be done about it
            due.append(self.unsynced.next_due())
        return min(at for at in due if at is not None)

    # ---- for people ------------------------------------------------------------------------------

    def state_of(self, key: str) -> State:
        """Where it is, as it is told: on a paused node nothing that waits to be sent goes."""
        state = self.unsynced.state(key)
        if self.hold and isinstance(state, Queued | Backoff | Withheld) and is_pending(state):
            return Withheld(Cause.PAUSE, self.hold)
        return state


def _is(held: Held | None, wish: Desired | None) -> bool:
    """The edge has exactly what is wanted."""
    return held is None if wish is None else _same(held, wish.live)


def _same(held: Held | None, live: LiveObject) -> bool:
    return held is not None and held.digest == live.digest and held.uid == live.uid


def _is_current(record: KeyState, id: int) -> bool:
    """Is this the message of the key that is in flight?"""
    return type(record.state) is InFlight and record.state.id == id


def _priority(wish: Desired | None) -> int:
    return wish.priority if wish is not None else FORGET_PRIORITY


def _content_id(wish: Desired | None, held: Held | None) -> ContentId | None:
    """What would be sent, or deleted; None: nothing."""
    if wish is not None:
        return wish.live.content_id
    return ContentId(held.uid, "") if held is not None else None
