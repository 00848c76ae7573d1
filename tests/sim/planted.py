"""Mistakes planted in the real cores, one at a time: each must break a law, or else that law checks nothing.

Each replaces one method of the hub or edge with one that does a little less than it should, or does it too early.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from fairlead_edge.objects.apply_queue import AckTracker
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_edge.objects.metastore import Absent
from fairlead_hub.cluster import deletion_blocked, listed
from fairlead_hub.cluster.desired_state import DesiredState
from fairlead_hub.cluster.listed import Listed
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.core.rules import RuleReader
from fairlead_hub.core.sessions import Sessions
from fairlead_hub.delivery import node_keys
from fairlead_hub.delivery.anti_entropy import Comparison
from fairlead_hub.delivery.deletion_guard import DeletionGuard
from fairlead_hub.delivery.delivery_events import AckedByEdge
from fairlead_hub.delivery.in_flight import InFlightWindow
from fairlead_hub.delivery.key_state import KeyInFlight
from fairlead_hub.delivery.node_keys import NodeKeys
from fairlead_hub.delivery.pause import NodeControls
from fairlead_hub.delivery.send_rate import SendRate
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.status.away_objects import AwayObjects
from fairlead_hub.status.object_sync_status import ObjectSyncRecords
from fairlead_hub.status.status_cache import StatusCache
from fairlead_hub.status.sync_controller import SyncController

Patch = pytest.MonkeyPatch


def status_ahead_of_the_ack(patch: Patch) -> None:
    """ObjectSync says what was sent, not what was acknowledged."""
    sent = NodeKeys._sent

    def early(self: NodeKeys, message: Any, size: int, now: float, *, in_parts: bool = False) -> int:
        if message.held is not None:
            self.events.append(AckedByEdge(key=message.key, held=message.held, seconds=0.0))
        return sent(self, message, size, now, in_parts=in_parts)

    patch.setattr(NodeKeys, "_sent", early)


def comparison_by_number(patch: Patch) -> None:
    """A store with the right number of objects is taken for the right store."""
    patch.setattr(Comparison, "equal_from_the_start", lambda self, hello: hello.held == len(self._wanted))


def forgets_deletes(patch: Patch) -> None:
    """Objects that are no longer wanted are ignored."""
    offer = NodeKeys.offer

    def forgetful(self: NodeKeys, key: str, now: float) -> None:
        if self.view.desired(self.node, key) is not None:
            offer(self, key, now)

    patch.setattr(NodeKeys, "offer", forgetful)


def key_lost_on_supersede(patch: Patch) -> None:
    """Any ack marks the key as in sync, even if something newer is wanted by then."""
    acked = NodeKeys._acked

    def content(self: NodeKeys, answered: Any, now: float) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(node_keys, "is_same", lambda held, desired: True)
            acked(self, answered, now)

    patch.setattr(NodeKeys, "_acked", content)


def forgets_the_window(patch: Patch) -> None:
    """A key is sent again at once when something newer is wanted, even if the first message is unanswered."""
    offer = NodeKeys.offer

    def hasty(self: NodeKeys, key: str, now: float) -> None:
        record = self.unsynced.get(key)
        if record is not None and type(record.state) is KeyInFlight:
            self.unsynced.matched(key)
        offer(self, key, now)

    patch.setattr(NodeKeys, "offer", hasty)


def answers_make_deadlines_earlier(patch: Patch) -> None:
    """The deadline of a message counts from the last answer, even one long before it was sent.  (A former bug.)"""

    def allow(self: InFlightWindow, now: float) -> None:
        deadline = self._window.next_deadline()
        for entry in self._window if deadline is not None and deadline <= now else ():
            timeout = entry.token.policy.ack_timeout
            if entry.id > self._answered_id and self._answered_at + timeout > now:
                self._window.extend(entry.id, now=self._answered_at, timeout=timeout)

    patch.setattr(InFlightWindow, "_allow_for_slow_links", allow)


def forgets_refusals(patch: Patch) -> None:
    """What an edge refused is never sent again."""
    patch.setattr(NodeKeys, "_failed", lambda self, *_, **more: None)


def unlisted_is_gone(patch: Patch) -> None:
    """A cache that was not listed yet is trusted."""
    patch.setattr(Listed, "not_synced", lambda self, node: "")


def unreadable_is_deleted(patch: Patch) -> None:
    """A rule that cannot be read is taken for one that was deleted."""
    patch.setattr(RuleReader, "unreadable", lambda self, found: self.gone(found.name))


def unreadable_after_restart_is_nothing(patch: Patch) -> None:
    """A new hub believes that an unreadable rule never selected anything."""
    unreadable = RuleReader.unreadable

    def innocent(self: RuleReader, found: Any) -> Any:
        return unreadable(self, msgspec.structs.replace(found, last=None, reach=None))

    patch.setattr(RuleReader, "unreadable", innocent)


def frozen_is_gone(patch: Patch) -> None:
    """A kind that may no longer be listed is taken to have no objects."""
    patch.setattr(deletion_blocked, "blocked", lambda *_: "")


def serves_gone_nodes(patch: Patch) -> None:
    """The session of a deleted Node continues."""
    end = Sessions.end

    def lenient(self: Sessions, session: NodeSession, code: Any, *rest: Any) -> None:
        if code not in ("node_deleted", "node_unknown"):
            end(self, session, code, *rest)

    patch.setattr(Sessions, "end", lenient)


def wakes_for_what_is_paused(patch: Patch) -> None:
    """On a paused node, timers are due again and again although nothing may be sent."""

    def next_tick(self: NodeKeys) -> float | None:
        due = (self.in_flight.next_deadline(), self.unsynced.next_due())
        return min((at for at in due if at is not None), default=None)

    patch.setattr(NodeKeys, "next_tick", next_tick)


def ignores_pauses(patch: Patch) -> None:
    """Nothing is ever paused."""
    patch.setattr(NodeControls, "paused", lambda self, node: "")


def pauses_later(patch: Patch) -> None:
    """A pause takes effect only in the next session."""
    patch.setattr(NodeKeys, "pause", lambda self, why, now: None)


def starts_before_it_knows_who_is_paused(patch: Patch) -> None:
    """The hub starts before it has listed EdgeNodes."""
    patch.setattr(listed, "INPUTS", tuple(name for name in listed.INPUTS if name != "edgenodes"))


def ignores_guards(patch: Patch) -> None:
    """Everything may be deleted."""
    patch.setattr(DeletionGuard, "blocked", lambda self, key, now: "")


def counts_no_removals(patch: Patch) -> None:
    """The guard counts removals that are due now, but not those just sent."""
    patch.setattr(DeletionGuard, "_is_too_many", lambda self, key, now: len(self.due - self._allowed) > 1)


def forgets_guards(patch: Patch) -> None:
    """A new hub does not read which guards have tripped."""
    patch.setattr(NodeControls, "_restore", lambda self, node, status: None)


def forgets_what_was_not_written(patch: Patch) -> None:
    """A document whose write failed once is forgotten."""
    failed = StatusCache.failed

    def once(self: StatusCache, wanted: Any, now: float, *, refused: str = "") -> bool:
        found = failed(self, wanted, now, refused=refused)
        self.cancel(wanted.name)
        return found

    patch.setattr(StatusCache, "failed", once)
    patch.setattr(SyncController, "reconcile", lambda self, now: None)


def collects_nothing(patch: Patch) -> None:
    """Documents of deleted Nodes stay."""
    patch.setattr(SyncController, "collect", lambda self: 0)
    patch.setattr(ObjectSyncRecords, "forget_node", lambda self, node: 0)


def acks_what_it_refused(patch: Patch) -> None:
    """The edge answers a refused write as if it were stored."""
    settled = AckTracker.settled
    patch.setattr(AckTracker, "settled", lambda self, batch: settled(self, [(id, Absent()) for id, _ in batch]))


def removes_nothing(patch: Patch) -> None:
    """The edge answers that it has no such object."""
    patch.setattr(MemoryMetastore, "_remove", lambda self, remove: Absent())


def ignores_object_pauses(patch: Patch) -> None:
    """The annotation of an object is ignored."""
    put = ObjectCache.put

    def blind(self: ObjectCache, live: Any) -> Any:
        return put(self, msgspec.structs.replace(live, paused=""))

    patch.setattr(ObjectCache, "put", blind)


def deletes_paused_objects(patch: Patch) -> None:
    """Only updates wait."""
    patch.setattr(DesiredState, "paused", lambda self, key, uid: "")


def forgets_away_nodes(patch: Patch) -> None:
    """The records of a node that is away stay as they were when it left."""
    patch.setattr(AwayObjects, "sweep", lambda self, now: None)


def follows_changes_alone(patch: Patch) -> None:
    """A hub that starts does not compare what it reads."""
    patch.setattr(AwayObjects, "compare", lambda self, nodes, *, refresh=False: None)


def sends_as_it_likes(patch: Patch) -> None:
    """Every priority that has something to send may send."""
    patch.setattr(SendRate, "may_send", lambda self, node, priority, now: True)


def forgets_who_waits(patch: Patch) -> None:
    """A node that had to wait never gets its turn."""
    patch.setattr(SendRate, "take_turns", lambda self, now: [])


MISTAKES: dict[Callable[[Patch], None], tuple[str, ...]] = {
    status_ahead_of_the_ack: ("law 1",),
    comparison_by_number: ("law 1", "law 2", "law 3"),
    acks_what_it_refused: ("law 1",),
    forgets_deletes: ("law 2",),
    key_lost_on_supersede: ("law 2",),
    forgets_refusals: ("law 2",),
    removes_nothing: ("law 2", "law 3"),
    forgets_what_was_not_written: ("law 3",),
    collects_nothing: ("law 3",),
    forgets_the_window: ("law 4",),
    answers_make_deadlines_earlier: ("law 4", "law 6"),
    unlisted_is_gone: ("law 5",),
    unreadable_is_deleted: ("law 5",),
    unreadable_after_restart_is_nothing: ("law 5",),
    frozen_is_gone: ("law 5",),
    serves_gone_nodes: ("law 5", "law 8"),
    wakes_for_what_is_paused: ("law 6",),
    ignores_pauses: ("law 7",),
    pauses_later: ("law 7",),
    starts_before_it_knows_who_is_paused: ("law 7", "law 8", "law 9"),
    ignores_guards: ("law 8",),
    counts_no_removals: ("law 8",),
    forgets_guards: ("law 9",),
    ignores_object_pauses: ("law 10",),
    deletes_paused_objects: ("law 10",),
    forgets_away_nodes: ("law 11",),
    follows_changes_alone: ("law 11",),
    sends_as_it_likes: ("law 12",),
    forgets_who_waits: ("law 2", "law 6"),
}
"""Each mistake with the laws that it may break first."""
