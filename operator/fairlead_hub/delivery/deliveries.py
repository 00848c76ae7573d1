"""The messages about one node's objects: what is sent, in flight, answered or not, and tried again.

    offer(key) ─▶ queued ─▶ frames() ─▶ in flight ─▶ acked  ─▶ Acked | Removed
                     ▲                        ├──▶ nacked ─▶ retry, or Parked at once when permanent
                     └── retry after a delay ─┴──▶ lapsed ─▶ retry, or Parked after the last one

``objects`` knows what the node holds and should hold.  At most one message is in flight for a key.  The session brings
frames and the time, and sends what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairlead_hub.cluster.content import HeldCopy
from fairlead_hub.cluster.desired_state import ClusterView
from fairlead_hub.delivery import frames
from fairlead_hub.delivery.deletion_guard import DeletionGuard
from fairlead_hub.delivery.delivery_events import DeliveryEvent, Parked
from fairlead_hub.delivery.frames import Frame
from fairlead_hub.delivery.in_flight import Answered, InFlightMessage, InFlightWindow
from fairlead_hub.delivery.keys.key_state import (
    IN_SYNC,
    Backoff,
    Cause,
    ImpossibleTransition,
    KeyInFlight,
    Queued,
    State,
    Withheld,
    is_pending,
)
from fairlead_hub.delivery.node_objects import NodeObjects, is_same
from fairlead_hub.delivery.send_rate import SendRate
from fairlead_hub.settings import NodeDelivery, Reconcile, WindowLimits
from fairlead_wire import message


class Deliveries:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    __slots__ = (
        "_chunk_bytes",
        "_fault",
        "_policy",
        "_rate",
        "_take_id",
        "in_flight",
        "live",
        "objects",
        "paused",
        "unsynced",
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
        self.objects = NodeObjects(node, view, reconcile=reconcile, guard=guard)
        self.unsynced = self.objects.unsynced
        self.in_flight = InFlightWindow(limits)
        self.live = False
        """It is known what the node holds: ``held`` is true, changes flow."""
        self.paused = paused
        """Why nothing is sent now; empty: it is."""
        self._chunk_bytes = limits.chunk_bytes
        self._policy = policy
        self._rate = rate
        self._take_id = take_id
        self._fault: ImpossibleTransition | None = None

    # ---- changes in the cluster ------------------------------------------------------------------

    def begin(self, held: dict[str, HeldCopy], divergent_buckets: int, now: float) -> None:
        """It is known now what the node holds; the comparison found so many buckets that differed."""
        self.objects.begin(held)
        self.live = True
        self.objects.compared(divergent_buckets, self.diff(now))

    def diff(self, now: float) -> int:
        """Queue every difference between what is held and what is wanted; returns how many there are.

        Asked after the comparison, when rules or labels changed, and when a watch has become certain.
        """
        if not self.live:
            return 0
        keys, differences = self.objects.differences()
        for key in keys:
            self.offer(key, now)
        return differences

    def offer(self, key: str, now: float) -> None:
        """Something about this key may have changed; what exactly is looked up when it is sent."""
        if not self.live:
            return
        try:
            self.objects.offer(key, now)
        except ImpossibleTransition as error:
            self._break(error)

    def pause(self, why: str, now: float) -> None:
        """Send nothing from now on, for this reason; empty: go on."""
        self.paused = why
        if self._rate is not None:
            self._rate.forget(self.objects.node)
        self.diff(now)

    def _break(self, error: ImpossibleTransition) -> None:
        """A mistake of ours about one key.  It is raised where only this node's session ends by it: in ``frames``."""
        self.live = False
        self._fault = error

    # ---- sending ---------------------------------------------------------------------------------

    @property
    def has_frames(self) -> bool:
        """Is there anything to send now, as far as the window allows?"""
        if self._fault is not None:
            return True
        if not (self.live and not self.paused and self.unsynced.has_queued and self.in_flight.has_room):
            return False
        return self._rate is None or not self._waits(self._rate)

    def _waits(self, rate: SendRate) -> bool:
        """It waits for its turn already, with the most urgent key it has."""
        priority = self.unsynced.first_priority()
        return priority is not None and rate.waits(self.objects.node, priority)

    def frames(self, now: float, limit: int) -> list[Frame]:
        """At most about ``limit`` frames to send now, in this order.

        Raises ``ImpossibleTransition``: end the session; the node comes back and is compared.
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
        """The same under an overall limit."""
        out: list[Frame] = []
        node, unsynced = self.objects.node, self.unsynced
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
        """The frames about this key; none where there is nothing to send, or nothing may be sent yet."""
        objects = self.objects
        desired = objects.desired(key)
        held = objects.held.get(key)
        if is_same(held, desired):
            objects.matched(key, objects.unsynced.pending[key])
            return ()
        if desired is None:
            assert held is not None
            if withheld := objects.withheld_deletion(key, held, now):
                objects.keep(key, withheld, now)
                return ()
            deletion = InFlightMessage(key=key, uid=held.uid, path=held.path, held=None, policy=self._policy)
            return (frames.delete(self._sent(deletion, len(held.path), now), held),)
        live = desired.live
        if live.paused:
            objects.pause(key, live.paused, now)
            return ()
        if why := objects.view.withheld(objects.node, key):
            objects.unsynced.move(key, "withheld", Withheld(Cause.NOT_GRANTED, why), now)
            return ()
        update = InFlightMessage(key=key, uid=live.uid, path=live.path, held=live.held, policy=desired.delivery)
        if live.problem is not None:
            objects.park(update, live.problem.code, live.problem.reason, now)
            return ()
        size = len(live.content)
        id = self._sent(update, size, now, in_parts=size > self._chunk_bytes)
        return frames.update(id, live, self._chunk_bytes)

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
        objects, key = self.objects, answered.token.key
        record = objects.unsynced.get(key)
        state = IN_SYNC if record is None else record.state
        is_current = type(state) is KeyInFlight and state.id == answered.id
        seconds = now - record.since if record is not None and (is_current or is_pending(state)) else 0.0
        objects.stored(answered.token, seconds)
        if record is None:
            self.offer(key, now)
            return
        if type(state) is KeyInFlight and not is_current:
            return
        if is_same(objects.held.get(key), objects.desired(key)):
            # Also when only the answer was slow and a retry or a parking was already arranged.
            objects.matched(key, record)
            return
        if is_current:
            objects.supersede(key, record, now)
        self.offer(key, now)

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
        key = answered.token.key
        record = self.unsynced.get(key)
        if record is None or type(record.state) is not KeyInFlight or record.state.id != answered.id:
            return
        if record.state.again is not None:
            self.objects.supersede(key, record, now)
            return
        self.objects.failed(answered.token, code, reason, now, permanent=permanent, after=after)

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """What time asks for: sends that were not answered, retries, and what was parked."""
        try:
            for lapsed in self.in_flight.lapsed(now):
                self._failed(lapsed, "timeout", f"no ack within {lapsed.token.policy.ack_timeout:g} s", now)
            if not self.paused:
                self._wake(now)
        except ImpossibleTransition as error:
            self._break(error)

    def _wake(self, now: float) -> None:
        """What has waited long enough is queued: retries, and what was parked."""
        for key in self.unsynced.due(now):
            state = self.unsynced.state(key)
            if isinstance(state, Parked):
                self.objects.unparked(state, "schedule")
            self.unsynced.move(key, "due", Queued(self.objects.priority(key)), now)

    def next_tick(self) -> float | None:
        """When ``tick`` may have something to do; None: not before something else happens."""
        # Paused, what is due would be due all the time, and nothing may be done about it.
        due = (self.in_flight.next_deadline(), None if self.paused else self.unsynced.next_due())
        return min((at for at in due if at is not None), default=None)

    # ---- reading ---------------------------------------------------------------------------------

    @property
    def held(self) -> dict[str, HeldCopy]:
        return self.objects.held

    @property
    def guard(self) -> DeletionGuard | None:
        return self.objects.guard

    def take_events(self) -> list[DeliveryEvent]:
        """What happened since the last call; each is given out once."""
        return self.objects.take_events()

    def reported(self, key: str, uid: str, path: str) -> None:
        """The status of this object at this node says that it is late or kept; it is set right when that is over."""
        self.objects.reported(key, uid, path)

    def state_of(self, key: str) -> State:
        """Where it is, as it is reported: on a paused node nothing that waits to be sent goes."""
        state = self.unsynced.state(key)
        if self.paused and isinstance(state, Queued | Backoff | Withheld) and is_pending(state):
            return Withheld(Cause.PAUSE, self.paused)
        return state
