"""What one node holds and what it should hold: every key from the one to the other.

    diff, offer ─▶ a record in ``unsynced`` ─▶ matched    (the edge holds what is desired; nothing is known of the key)
                          │
                          └─ stored, superseded, failed, parked, kept: what became of a message about it

Where each key is stands in ``unsynced``; a key that is in sync has nothing there.  ``Deliveries`` sends the messages
and reports their outcome; what happened is left in ``events``.
"""

from __future__ import annotations

from fairlead_hub.cluster.content import ContentId, HeldCopy, LiveObject
from fairlead_hub.cluster.desired_state import ClusterView
from fairlead_hub.cluster.placement import Desired
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
from fairlead_hub.delivery.in_flight import InFlightMessage
from fairlead_hub.delivery.keys import backoff
from fairlead_hub.delivery.keys.key_state import Backoff, Cause, KeyInFlight, KeyState, Queued, ReportedState, Withheld
from fairlead_hub.delivery.keys.unsynced_keys import UnsyncedKeys
from fairlead_hub.settings import Reconcile
from fairlead_wire import message

DELETION_PRIORITY = 5
"""Deletes go with the ordinary traffic: an object no rule wants any more is no reason to delay one that is wanted."""


class NodeObjects:
    """See the module.  ``now`` is always seconds of one monotonic clock.

    Raises ``ImpossibleTransition`` where the table of states does not lead: a mistake in this program.
    """

    __slots__ = ("_reconcile", "events", "guard", "held", "node", "unsynced", "view")

    def __init__(self, node: str, view: ClusterView, *, reconcile: Reconcile, guard: DeletionGuard | None) -> None:
        self.node = node
        self.view = view
        self.guard = guard
        self.held: dict[str, HeldCopy] = {}
        self.unsynced = UnsyncedKeys()
        self.events: list[DeliveryEvent] = []
        self._reconcile = reconcile

    def desired(self, key: str) -> Desired | None:
        """What the node should hold under this key now; None: nothing."""
        return self.view.desired(self.node, key)

    def begin(self, held: dict[str, HeldCopy]) -> None:
        """It is known now what the node holds."""
        self.held = held

    def compared(self, divergent_buckets: int, differences: int) -> None:
        """The comparison with the node is over, and these were its figures."""
        self.events.append(Compared(divergent_buckets=divergent_buckets, differences=differences))

    def take_events(self) -> list[DeliveryEvent]:
        """What happened since the last call; each is given out once."""
        events, self.events = self.events, []
        return events

    # ---- changes in the cluster ------------------------------------------------------------------

    def differences(self) -> tuple[list[str], int]:
        """Keys to offer: every difference between what is held and what is desired, and what has a record already.

        With how many of them are differences; they come first.
        """
        wanted = self.view.desired_objects(self.node)
        unwanted = self.held.keys() - wanted.keys()
        if self.guard is not None:
            self.guard.set_due(unwanted)
        differing = [key for key, live in wanted.items() if not _same(self.held.get(key), live)]
        differing += sorted(unwanted)
        # What was kept or late and is right again has to be reported, too.
        found = set(differing)
        return [*differing, *(key for key in self.unsynced if key not in found)], len(differing)

    def offer(self, key: str, now: float) -> None:
        """Something about this key may have changed; what exactly is looked up when it is sent."""
        desired = self.view.desired(self.node, key)
        held = self.held.get(key)
        if self.guard is not None:
            (self.guard.add if desired is None and held is not None else self.guard.drop)(key)
        record = self.unsynced.get(key)
        if record is None:
            if not is_same(held, desired):
                self.unsynced.move(key, "offered", Queued(_priority(desired)), now)
            return
        if record.reported is not None and (desired is None or desired.live.uid != record.reported.uid):
            self._end_report(key, record)
        if type(record.state) is not KeyInFlight and is_same(held, desired):
            self.matched(key, record)
        else:
            self._offer_again(key, record, desired, _content_id(desired, held), now)

    def _offer_again(
        self, key: str, record: KeyState, desired: Desired | None, content_id: ContentId | None, now: float
    ) -> None:
        """An offer of what failed, or is in flight, takes nothing from its retries; anything newer begins anew."""
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
                # A pause counts as newer: the status has to say Paused, which a hub that starts reads.
                if is_newer or (desired is not None and desired.live.paused):
                    self.unparked(parked, "newer" if desired is not None else "unwanted")
                    self.unsynced.move(key, "offered", Queued(priority), now)
            case Backoff():
                if is_newer:
                    self.unsynced.move(key, "offered", Queued(priority), now)
            case Withheld():
                self.unsynced.move(key, "offered", Queued(priority), now)

    def no_longer_withheld(self) -> list[str]:
        """Keys that waited for a grant, and need not any more: offer them again."""
        waiting = [key for key, state in self.unsynced.withheld().items() if state.cause is Cause.NOT_GRANTED]
        return [key for key in waiting if not self.view.withheld(self.node, key)]

    # ---- before a message ------------------------------------------------------------------------

    def withheld_deletion(self, key: str, held: HeldCopy, now: float) -> Withheld | None:
        """Why what the node holds under this key may not be deleted yet."""
        if why := self.view.paused(key, held.uid):
            return Withheld(Cause.DELETION_PAUSED, why)
        if why := self.view.deletion_blocked(self.node, held.path):
            return Withheld(Cause.DELETION_BLOCKED, why)
        if self.guard is not None and (why := self.guard.blocked(key, now)):
            return Withheld(Cause.DELETION_GUARD, why)
        return None

    def pause(self, key: str, why: str, now: float) -> None:
        """The object is paused; offered again when it changes, or is resumed."""
        self.unsynced.move(key, "withheld", Withheld(Cause.OBJECT_PAUSED, why), now)
        if self.unsynced.pending[key].reported is None:
            self.events.append(Paused(key=key))

    def keep(self, key: str, withheld: Withheld, now: float) -> None:
        """Offered again by the diff that follows when the watch becomes certain, or the deletions are approved."""
        record = self.unsynced.pending[key]
        self._end_report(key, record)
        record.failures = None
        self.unsynced.move(key, "withheld", withheld, now)

    # ---- after a message -------------------------------------------------------------------------

    def stored(self, acked: InFlightMessage, seconds: float) -> None:
        """The node has done what this message said, ``seconds`` after it was offered."""
        key, held = acked.key, self.held.get(acked.key)
        if acked.held is not None:
            if held is not None and held.uid != acked.uid:
                # A new object under an old name: the edge dropped the old one in the same commit, so its status goes.
                self.events.append(RemovedAtEdge(key=key, uid=held.uid, path=held.path))
            self.held[key] = acked.held
            self.events.append(AckedByEdge(key=key, held=acked.held, seconds=seconds))
            return
        if held is not None and held.uid == acked.uid:
            del self.held[key]
        self.events.append(RemovedAtEdge(key=key, uid=acked.uid, path=acked.path))
        if self.guard is not None and key not in self.held:
            self.guard.drop(key)

    def supersede(self, key: str, record: KeyState, now: float) -> None:
        """It was answered, and something newer is wanted: that goes at once, with all its retries."""
        state = record.state
        assert isinstance(state, KeyInFlight)
        record.failures = None
        priority = self.priority(key) if state.again is None else state.again
        self.unsynced.move(key, "superseded", Queued(priority), now)

    def failed(
        self, sent: InFlightMessage, code: str, reason: str, now: float, *, permanent: bool, after: float | None
    ) -> None:
        """The newest message about this key was refused or not answered, and nothing newer is wanted."""
        record = self.unsynced.pending[sent.key]
        failures = None
        if not permanent:
            failures = backoff.retry(
                record.failures, sent.content_id, sent.policy, node=self.node, key=sent.key, retry_after=after
            )
        if failures is None:
            self.park(sent, code, reason, now)
            return
        record.failures = failures
        due = now + failures.previous
        self.unsynced.move(sent.key, "failed", Backoff(due, failures.retries), now)
        self.events.append(Retried(key=sent.key, code=code))

    def park(self, given_up: InFlightMessage, code: str, reason: str, now: float) -> None:
        """It is not tried again until something newer is wanted, or the schedule says so."""
        record = self.unsynced.pending[given_up.key]
        retries = record.failures.retries if record.failures is not None else 0
        record.failures, seconds = backoff.park(record.failures, given_up.content_id, self._reconcile)
        record.reported = ReportedState(given_up.uid, given_up.path)
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

    def unparked(self, parked: Parked, why: str) -> None:
        """It is tried again."""
        self.events.append(Unparked(key=parked.key, uid=parked.uid, path=parked.path, why=why))

    def matched(self, key: str, record: KeyState) -> None:
        """The edge holds what is wanted: nothing is to be done for this key."""
        if type(record.state) is Parked:
            self.unparked(record.state, "unwanted")
        if record.reported is not None:
            self._end_report(key, record)
        self.unsynced.matched(key)

    # ---- what the status says --------------------------------------------------------------------

    def reported(self, key: str, uid: str, path: str) -> None:
        """The status of this object at this node says that it is late or kept; it is set right when that is over."""
        record = self.unsynced.get(key)
        if record is not None:
            record.reported = ReportedState(uid, path)

    def _end_report(self, key: str, record: KeyState) -> None:
        """What was reported of this key is over; the status of something the edge never got goes with it."""
        reported, record.reported = record.reported, None
        held = self.held.get(key)
        if reported is not None:
            gone = held is None or held.uid != reported.uid
            self.events.append(
                RemovedAtEdge(key=key, uid=reported.uid, path=reported.path) if gone else Recovered(key=key)
            )

    def priority(self, key: str) -> int:
        """With which a message about this key waits."""
        return _priority(self.view.desired(self.node, key))


def is_same(held: HeldCopy | None, desired: Desired | None) -> bool:
    """The edge has exactly what is wanted."""
    return held is None if desired is None else _same(held, desired.live)


def _same(held: HeldCopy | None, live: LiveObject) -> bool:
    return held is not None and held.digest == live.digest and held.uid == live.uid


def _priority(desired: Desired | None) -> int:
    return desired.priority if desired is not None else DELETION_PRIORITY


def _content_id(desired: Desired | None, held: HeldCopy | None) -> ContentId | None:
    """What would be sent, or deleted; None: nothing."""
    if desired is not None:
        return desired.live.content_id
    return ContentId(held.uid, "") if held is not None else None
