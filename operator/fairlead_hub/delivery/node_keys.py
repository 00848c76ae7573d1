"""The keys of one node: what it holds, what it should hold, and the messages that turn one into the other.

    offer(key) ─▶ queued ─▶ frames() ─▶ in flight ─▶ acked  ─▶ AckedByEdge | RemovedAtEdge
                     ▲                        ├──▶ nacked ─▶ retry, or Parked at once when permanent
                     └── retry after a delay ─┴──▶ lapsed ─▶ retry, or Parked after the last one

A key that is in sync costs its entry in ``held`` and nothing else; every other key has one record in ``unsynced`` with
its state.  At most one message per key is in flight.  The session (``session``) brings answers and the time, and sends
the frames; outcomes are left in ``events`` for the hub.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairlead_hub.cluster.content import ContentId, HeldCopy, LiveObject
from fairlead_hub.cluster.desired_state import ClusterView
from fairlead_hub.cluster.placement import Desired
from fairlead_hub.delivery import backoff
from fairlead_hub.delivery.deletion_guard import DeletionGuard
from fairlead_hub.delivery.delivery_events import (
    AckedByEdge,
    Compared,
    DeliveryEvent,
    Parked,
    Paused,
    Recovered,
    RemovedAtEdge,
    Retried,
    Unparked,
)
from fairlead_hub.delivery.in_flight import Answered, InFlightMessage, InFlightWindow, delete_frame, update_frames
from fairlead_hub.delivery.key_state import (
    IN_SYNC,
    BackingOff,
    Cause,
    ImpossibleTransition,
    KeyInFlight,
    KeyState,
    Queued,
    ReportedState,
    State,
    Withheld,
    is_pending,
)
from fairlead_hub.delivery.send_rate import SendRate
from fairlead_hub.delivery.unsynced_keys import UnsyncedKeys
from fairlead_hub.session_ref import Frame
from fairlead_hub.settings import NodeDelivery, Reconcile, WindowLimits
from fairlead_wire import message

DELETION_PRIORITY = 5
"""Deletes have the default priority: an unwanted object is no reason to delay a wanted one."""


class NodeKeys:
    """See the module docstring.  ``now`` is always seconds of one monotonic clock."""

    __slots__ = (
        "_chunk_bytes",
        "_fault",
        "_policy",
        "_rate",
        "_reconcile",
        "_take_id",
        "events",
        "guard",
        "held",
        "in_flight",
        "live",
        "node",
        "paused",
        "unsynced",
        "view",
    )

    def __init__(
        self,
        node: str,
        view: ClusterView,
        *,
        limits: WindowLimits,
        policy: NodeDelivery,
        reconcile: Reconcile,
        take_id: Callable[[], int],
        paused: str = "",
        guard: DeletionGuard | None = None,
        rate: SendRate | None = None,
    ) -> None:
        self.node = node
        self.view = view
        self.guard = guard
        self.held: dict[str, HeldCopy] = {}
        """What the node has on disk, by key; valid while ``live``."""
        self.unsynced = UnsyncedKeys()
        self.in_flight = InFlightWindow(limits)
        self.live = False
        """The comparison is over: it is known what the node holds, and changes are delivered."""
        self.paused = paused
        """Why nothing is sent now; empty if it is."""
        self.events: list[DeliveryEvent] = []
        self._chunk_bytes = limits.chunk_bytes
        self._policy = policy
        self._reconcile = reconcile
        self._rate = rate
        self._take_id = take_id
        self._fault: ImpossibleTransition | None = None

    # ---- what changed ----------------------------------------------------------------------------

    def begin(self, held: dict[str, HeldCopy], divergent_buckets: int, now: float) -> None:
        """The comparison found what the node holds, and that so many buckets differed."""
        self.held = held
        self.live = True
        self.events.append(Compared(divergent_buckets=divergent_buckets, differences=self.diff(now)))

    def diff(self, now: float) -> int:
        """Queue every difference between held and wanted; returns their number.

        Called after the comparison, when rules or labels change, and when a watch becomes certain.
        """
        if not self.live:
            return 0
        wanted = self.view.desired_objects(self.node)
        unwanted = self.held.keys() - wanted.keys()
        if self.guard is not None:
            self.guard.set_due(unwanted)
        differing = [key for key, live in wanted.items() if not _same(self.held.get(key), live)]
        differing += sorted(unwanted)
        # What was reported as kept or late and is correct again has to be reported, too.
        found = set(differing)
        for key in [*differing, *(key for key in self.unsynced if key not in found)]:
            self.offer(key, now)
        return len(differing)

    def offer(self, key: str, now: float) -> None:
        """What is wanted under this key may have changed; the content is looked up when it is sent."""
        if not self.live:
            return
        desired = self.view.desired(self.node, key)
        held = self.held.get(key)
        if self.guard is not None:
            (self.guard.add if desired is None and held is not None else self.guard.drop)(key)
        record = self.unsynced.get(key)
        try:
            if record is None:
                if not is_same(held, desired):
                    self.unsynced.move(key, "offered", Queued(_priority(desired)), now)
                return
            if record.reported is not None:
                self._check_report(key, record, record.reported, desired)
            if type(record.state) is not KeyInFlight and is_same(held, desired):
                self._matched(key, record)
            else:
                self._offer_again(key, record, desired, _content_id(desired, held), now)
        except ImpossibleTransition as error:
            self._break(error)

    def _offer_again(
        self, key: str, record: KeyState, desired: Desired | None, content_id: ContentId | None, now: float
    ) -> None:
        """An offer of content that failed or is in flight does not reset its retries; newer content starts over."""
        priority = _priority(desired)
        is_newer = record.failures is None or record.failures.content_id != content_id
        if is_newer:
            record.failures = None
        match record.state:
            case Queued(priority=before):
                if priority < before:
                    self.unsynced.move(key, "offered", Queued(priority), now)
            case KeyInFlight(id=id, message=sent, again=again):
                if again is not None or sent.content_id != content_id:
                    again = priority if again is None else min(again, priority)
                    self.unsynced.move(key, "offered", KeyInFlight(id, sent, again), now)
            case Parked() as parked:
                # A pause counts as newer: the status has to say Paused, which a restarted hub reads.
                if is_newer or (desired is not None and desired.live.paused):
                    self._unparked(parked, "newer" if desired is not None else "unwanted")
                    self.unsynced.move(key, "offered", Queued(priority), now)
            case BackingOff():
                if is_newer:
                    self.unsynced.move(key, "offered", Queued(priority), now)
            case Withheld():
                self.unsynced.move(key, "offered", Queued(priority), now)

    def offer_granted(self, now: float) -> bool:
        """Offer the keys that waited for a topic grant and no longer need to.  Returns False if there are none."""
        waiting = [key for key, state in self.unsynced.withheld().items() if state.cause is Cause.NOT_GRANTED]
        granted = [key for key in waiting if not self.view.withheld(self.node, key)]
        for key in granted:
            self.offer(key, now)
        return bool(granted)

    def pause(self, why: str, now: float) -> None:
        """Stop sending for this reason; an empty reason resumes."""
        self.paused = why
        if self._rate is not None:
            self._rate.forget(self.node)
        self.diff(now)

    def _break(self, error: ImpossibleTransition) -> None:
        """A defect of ours concerning one key.  It is raised in ``frames``, where it ends only this node's session."""
        self.live = False
        self._fault = error

    # ---- sending ---------------------------------------------------------------------------------

    @property
    def has_frames(self) -> bool:
        """Whether there is anything to send now, as far as the window allows."""
        if self._fault is not None:
            return True
        if not (self.live and not self.paused and self.unsynced.has_queued and self.in_flight.has_room):
            return False
        return self._rate is None or not self._waits(self._rate)

    def _waits(self, rate: SendRate) -> bool:
        """Whether it already waits for its turn with its most urgent key."""
        priority = self.unsynced.first_priority()
        return priority is not None and rate.waits(self.node, priority)

    def frames(self, now: float, limit: int) -> list[Frame]:
        """At most about ``limit`` frames to send now, in this order.

        Raises ``ImpossibleTransition``: end the session; the node reconnects and is compared.
        """
        if self._fault is not None:
            raise self._fault
        out: list[Frame] = []
        if not self.live or self.paused:
            return out
        self._wake(now)
        if self._rate is not None:
            return self._frames_in_turn(self._rate, now, limit)
        unsynced, in_flight = self.unsynced, self.in_flight
        while len(out) < limit and in_flight.has_room:
            key = unsynced.first_queued()
            if key is None:
                break
            out += self._message(key, now)
        return out

    def _frames_in_turn(self, rate: SendRate, now: float, limit: int) -> list[Frame]:
        """Like ``frames``, under an overall rate limit."""
        out: list[Frame] = []
        node, unsynced = self.node, self.unsynced
        while len(out) < limit and self.in_flight.has_room:
            key, priority = unsynced.first_queued(), unsynced.first_priority()
            if key is None or priority is None or not rate.may_send(node, priority, now):
                break
            found = self._message(key, now)
            if not found:
                rate.unused()
            out += found
        rate.rest(node)
        return out

    def _message(self, key: str, now: float) -> Sequence[Frame]:
        """The frames about this key; none if there is nothing to send or it may not be sent yet."""
        desired = self.view.desired(self.node, key)
        held = self.held.get(key)
        if is_same(held, desired):
            self._matched(key, self.unsynced.pending[key])
            return ()
        if desired is None:
            assert held is not None
            if withheld := self._withheld_deletion(key, held, now):
                self._keep(key, held, withheld, now)
                return ()
            deletion = InFlightMessage(key=key, uid=held.uid, path=held.path, held=None, policy=self._policy)
            return (delete_frame(self._sent(deletion, len(held.path), now), held),)
        live = desired.live
        if live.paused:
            self._pause_object(key, live.paused, now)
            return ()
        if why := self.view.withheld(self.node, key):
            self.unsynced.move(key, "withheld", Withheld(Cause.NOT_GRANTED, why), now)
            return ()
        update = InFlightMessage(key=key, uid=live.uid, path=live.path, held=live.held, policy=desired.delivery)
        if live.problem is not None:
            self._park(update, live.problem.code, live.problem.reason, now)
            return ()
        size = len(live.content)
        id = self._sent(update, size, now, in_parts=size > self._chunk_bytes)
        return update_frames(id, live, self._chunk_bytes)

    def _withheld_deletion(self, key: str, held: HeldCopy, now: float) -> Withheld | None:
        """Why what the node holds under this key must not be deleted yet."""
        if why := self.view.paused(key, held.uid):
            return Withheld(Cause.DELETION_PAUSED, why)
        if why := self.view.deletion_blocked(self.node, held.path):
            return Withheld(Cause.DELETION_BLOCKED, why)
        if self.guard is not None and (why := self.guard.blocked(key, now)):
            return Withheld(Cause.DELETION_GUARD, why)
        return None

    def _keep(self, key: str, held: HeldCopy, withheld: Withheld, now: float) -> None:
        """Keep it; the diff offers it again when the watch becomes certain or the deletions are approved."""
        record = self.unsynced.pending[key]
        if record.reported is not None and record.reported.uid != held.uid:
            self._end_report(key, record)
        # Even if nothing is reported yet: the previous hub may have reported it as kept.
        record.reported = ReportedState(held.uid, held.path, is_wanted=False, is_due=True)
        record.failures = None
        self.unsynced.move(key, "withheld", withheld, now)

    def _pause_object(self, key: str, why: str, now: float) -> None:
        """Withhold it; it is offered again when the object changes or is resumed."""
        self.unsynced.move(key, "withheld", Withheld(Cause.OBJECT_PAUSED, why), now)
        if not self.unsynced.pending[key].is_reported:
            self.events.append(Paused(key=key))

    def _sent(self, sent: InFlightMessage, size: int, now: float, *, in_parts: bool = False) -> int:
        id = self._take_id()
        self.unsynced.move(sent.key, "sent", KeyInFlight(id, sent), now)
        self.in_flight.sent(id, sent, size, now, in_parts=in_parts)
        return id

    # ---- answers ---------------------------------------------------------------------------------

    def acked(self, header: message.Ack, now: float) -> None:
        for answered in self.in_flight.acked(header.parent_id, cumulative=header.cumulative, now=now):
            self._acked(answered, now)

    def nacked(self, header: message.Nack, now: float) -> None:
        refused = self.in_flight.nacked(header.parent_id, now)
        if refused is not None:
            after = header.retry_after
            self._failed(refused, header.code, header.reason, now, permanent=header.permanent, after=after)

    def _acked(self, answered: Answered, now: float) -> None:
        key = answered.token.key
        record = self.unsynced.get(key)
        state = IN_SYNC if record is None else record.state
        is_current = type(state) is KeyInFlight and state.id == answered.id
        seconds = now - record.since if record is not None and (is_current or is_pending(state)) else 0.0
        self._stored(answered.token, seconds)
        if record is None:
            self.offer(key, now)
            return
        if type(state) is KeyInFlight and not is_current:
            return
        if is_same(self.held.get(key), self.view.desired(self.node, key)):
            # Also if only the answer was slow and a retry or a parking was already scheduled.
            self._matched(key, record)
            return
        if is_current:
            self._supersede(key, record, now)
        self.offer(key, now)

    def _stored(self, acked: InFlightMessage, seconds: float) -> None:
        """The node has executed this message, ``seconds`` after it was offered."""
        key, held = acked.key, self.held.get(acked.key)
        if acked.held is not None:
            if held is not None and held.uid != acked.uid:
                # A new object under an old name: the edge dropped the old one in the same commit, so its status is
                # removed.
                self.events.append(RemovedAtEdge(key=key, uid=held.uid, path=held.path))
            self.held[key] = acked.held
            self.events.append(AckedByEdge(key=key, held=acked.held, seconds=seconds))
            return
        if held is not None and held.uid == acked.uid:
            del self.held[key]
        record = self.unsynced.get(key)
        if record is not None and record.reported is not None and record.reported.uid == acked.uid:
            record.reported = None  # removed together with its status
        self.events.append(RemovedAtEdge(key=key, uid=acked.uid, path=acked.path))
        if self.guard is not None and key not in self.held:
            self.guard.drop(key)

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
        """A send was refused or not answered.  Ignored if a newer send of the key made it irrelevant."""
        sent, key = answered.token, answered.token.key
        record = self.unsynced.get(key)
        if record is None or type(record.state) is not KeyInFlight or record.state.id != answered.id:
            return
        if record.state.again is not None:
            self._supersede(key, record, now)
            return
        failures = None
        if not permanent:
            failures = backoff.retry(
                record.failures, sent.content_id, sent.policy, node=self.node, key=key, retry_after=after
            )
        if failures is None:
            self._park(sent, code, reason, now)
            return
        record.failures = failures
        self.unsynced.move(key, "failed", BackingOff(now + failures.previous, failures.retries), now)
        self.events.append(Retried(key=key, code=code))

    def _supersede(self, key: str, record: KeyState, now: float) -> None:
        """It was answered, and something newer is wanted: that is sent immediately, with all its retries."""
        state = record.state
        assert isinstance(state, KeyInFlight)
        record.failures = None
        priority = self._priority(key) if state.again is None else state.again
        self.unsynced.move(key, "superseded", Queued(priority), now)

    def _park(self, given_up: InFlightMessage, code: str, reason: str, now: float) -> None:
        """Give it up until something newer is wanted or the schedule retries it."""
        record = self.unsynced.pending[given_up.key]
        retries = record.failures.retries if record.failures is not None else 0
        record.failures, seconds = backoff.park(record.failures, given_up.content_id, self._reconcile)
        record.reported = ReportedState(given_up.uid, given_up.path, is_wanted=given_up.held is not None)
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
        self.events.append(parked)

    def _unparked(self, parked: Parked, why: str) -> None:
        """The key is retried."""
        self.events.append(Unparked(key=parked.key, uid=parked.uid, path=parked.path, why=why))

    def _matched(self, key: str, record: KeyState) -> None:
        """The edge holds what is wanted: nothing is left to do for this key."""
        if type(record.state) is Parked:
            self._unparked(record.state, "unwanted")
        if record.reported is not None:
            self._end_report(key, record)
        self.unsynced.matched(key)

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Handle everything that is due: unanswered sends, retries, and parked keys."""
        try:
            for lapsed in self.in_flight.lapsed(now):
                self._failed(lapsed, "timeout", f"no ack within {lapsed.token.policy.ack_timeout:g} s", now)
            if not self.paused:
                self._wake(now)
        except ImpossibleTransition as error:
            self._break(error)

    def _wake(self, now: float) -> None:
        """Queue the keys that have waited long enough: retries and parked keys."""
        for key in self.unsynced.due(now):
            state = self.unsynced.state(key)
            if isinstance(state, Parked):
                self._unparked(state, "schedule")
            self.unsynced.move(key, "due", Queued(self._priority(key)), now)

    def next_tick(self) -> float | None:
        """When ``tick`` may have something to do; None if only another event can change that."""
        # While paused, due keys would always be due, and nothing may be done about them.
        due = (self.in_flight.next_deadline(), None if self.paused else self.unsynced.next_due())
        return min((at for at in due if at is not None), default=None)

    # ---- what is reported ------------------------------------------------------------------------

    def take_events(self) -> list[DeliveryEvent]:
        """The events since the last call, each returned once."""
        events, self.events = self.events, []
        return events

    def state_of(self, key: str) -> State:
        """The state of a key as it is reported: on a paused node nothing that is queued is sent."""
        state = self.unsynced.state(key)
        if self.paused and isinstance(state, Queued | BackingOff | Withheld) and is_pending(state):
            return Withheld(Cause.PAUSE, self.paused)
        return state

    def reported(self, key: str, uid: str, path: str, *, is_wanted: bool = True) -> None:
        """The status of this object at this node reports it as late or kept; it is corrected when that is over."""
        record = self.unsynced.get(key)
        if record is not None:
            record.reported = ReportedState(uid, path, is_wanted)

    def _check_report(self, key: str, record: KeyState, reported: ReportedState, desired: Desired | None) -> None:
        """Something other than what the status says may be wanted.

        A report about another object ends; others are renewed.
        """
        held = self.held.get(key)
        about = desired.live.uid if desired is not None else held.uid if held is not None else ""
        if about != reported.uid:
            self._end_report(key, record)
        elif reported.is_wanted is not (desired is not None):
            record.reported = reported._replace(is_due=True)

    def _end_report(self, key: str, record: KeyState) -> None:
        """The report about this key is over; the status of an object the edge never received is removed."""
        reported, record.reported = record.reported, None
        held = self.held.get(key)
        if reported is not None:
            gone = held is None or held.uid != reported.uid
            self.events.append(
                RemovedAtEdge(key=key, uid=reported.uid, path=reported.path) if gone else Recovered(key=key)
            )

    def _priority(self, key: str) -> int:
        """Priority with which a message about this key is queued."""
        return _priority(self.view.desired(self.node, key))


def is_same(held: HeldCopy | None, desired: Desired | None) -> bool:
    """Whether the edge holds exactly what is wanted."""
    return held is None if desired is None else _same(held, desired.live)


def _same(held: HeldCopy | None, live: LiveObject) -> bool:
    return held is not None and held.digest == live.digest and held.uid == live.uid


def _priority(desired: Desired | None) -> int:
    return desired.priority if desired is not None else DELETION_PRIORITY


def _content_id(desired: Desired | None, held: HeldCopy | None) -> ContentId | None:
    """What would be sent or deleted; None if nothing."""
    if desired is not None:
        return desired.live.content_id
    return ContentId(held.uid, "") if held is not None else None
