"""The SyncController: keeps ObjectSync and EdgeNode status consistent with what edges hold.

    delivery events of a session ─delivered─▶ ObjectSyncStatus, NodeStatus ─▶ Notices
    every second                  ─sweep─────▶ lagging and kept objects are recorded; edited status is compared
    every reconcile interval      ─reconcile─▶ differences are offered again, orphaned documents are collected

Parked keys are retried by their own timers (``delivery.backoff``), or immediately when something about them changes.
Order: an edge acknowledges what is on its disk, then the status says so.  Status may lag behind the edge's store
and never leads; whatever a crash left half done is found again by comparing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from fairlead_hub.cluster import deletion_blocked, paused_objects
from fairlead_hub.cluster.desired_state import DesiredState
from fairlead_hub.cluster.object_cache import ObjectChange
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
from fairlead_hub.delivery.key_state import Cause, Withheld
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.settings import HubSettings
from fairlead_hub.status import status_cache
from fairlead_hub.status.away_objects import AwayObjects
from fairlead_hub.status.node_status import NodeStatus
from fairlead_hub.status.object_sync_status import ObjectSyncRecords
from fairlead_hub.status.status_cache import Notice

_EDGE_ROUTES = f"{deletion_blocked.EDGE_ROUTES_TYPE}/"
_EVENTS = frozenset(("events", "events.events.k8s.io"))
"""The types of Kubernetes Events; a rule may deliver them like any other kind."""


class SyncController:
    """See the module docstring.

    ``sessions`` are the open ones, maintained by the hub; ``now`` is seconds of a monotonic clock.
    """

    def __init__(
        self,
        sessions: Mapping[str, NodeSession],
        *,
        desired_state: DesiredState,
        object_syncs: ObjectSyncRecords,
        node_status: NodeStatus,
        settings: HubSettings,
    ) -> None:
        self._sessions = sessions
        self._desired_state = desired_state
        self.object_syncs = object_syncs
        self._node_status = node_status
        self.away = AwayObjects(
            sessions,
            desired_state=desired_state,
            object_syncs=object_syncs,
            node_status=node_status,
            writes_per_second=settings.record.away_writes_per_second,
        )
        self._edited: set[str] = set()
        """Nodes whose status others changed or deleted: compared once, however much it was."""

    # ---- delivery events -------------------------------------------------------------------------

    def delivered(self, session: NodeSession, events: Iterable[DeliveryEvent], now: float) -> list[Notice]:
        """Apply delivery events, in order, to the status.  Returns the notices for Kubernetes Events."""
        node, syncs, live_of = session.node, self.object_syncs, self._desired_state.live
        notices: list[Notice] = []
        changed = not session.keys.unsynced.pending
        for event in events:
            match event:
                case AckedByEdge():
                    changed = changed or event.key.startswith(_EDGE_ROUTES)
                    syncs.acked(session, event, live_of(node, event.key), now)
                case RemovedAtEdge():
                    syncs.removed(session, event)
                case Parked():
                    is_told = syncs.parked(session, event, live_of(node, event.key), now)
                    if is_told and _is_worth_an_event(event):
                        text = f"{event.code}: {event.reason}"
                        notices.append(syncs.notice(node, event, "Warning", "Parked", text))
                    changed = True
                case Unparked():
                    live = live_of(node, event.key)
                    syncs.unparked(session, event, live, now)
                    is_told = live is not None or syncs.is_placed(node, event.path, event.uid)
                    if is_told and event.why != "unwanted" and _is_worth_an_event(event):
                        text = f"retried: {event.why}"
                        notices.append(syncs.notice(node, event, "Normal", "Unparked", text))
                    changed = True
                case Paused():
                    self._report_paused(session, event.key, now)
                case Recovered():
                    syncs.recovered(session, event, live_of(node, event.key), now)
                case Compared():
                    self._compare(session, now)
                    changed = True
                case Retried():
                    pass
                case _:
                    assert_never(event)
        if changed:
            self._node_status.changed(node)
        return notices

    # ---- sessions --------------------------------------------------------------------------------

    def opened(self, node: str) -> None:
        """The node has a session with this process."""
        self._node_status.opened(node)
        self.away.opened(node)

    def ended(self, node: str, now: float) -> None:
        """The node's session ended."""
        self._node_status.ended(node)
        self.away.ended(node, now)

    def forget_node(self, node: str) -> int:
        """The Node is gone, and the status of its objects with it.  Returns the number of documents."""
        self.away.forget(node)
        return self.object_syncs.forget_node(node)

    def object_changed(self, change: ObjectChange, now: float) -> None:
        """An object was added, changed or deleted; sessions know on their own if it has to be sent."""
        self.away.changed(change, now)
        if paused_objects.is_changed(change.before, change.after):
            self._object_pause_changed(change.key, now)

    # ---- every second ----------------------------------------------------------------------------

    def sweep(self, now: float, pending_seconds: float) -> None:
        """Record nodes that have lagged for longer than this, and compare edited status.  Free for nodes in sync."""
        self.away.sweep(now)
        edited, self._edited = self._edited, set()
        for node in edited & self._sessions.keys():
            self._compare(self._sessions[node], now)
        for session in self._sessions.values():
            for key, record in session.keys.unsynced.pending.items():
                if now - record.since < pending_seconds:
                    break  # oldest first
                if not record.is_reported:
                    live = self._desired_state.live(session.node, key)
                    about = live.held if live is not None else session.keys.held.get(key)
                    if about is not None:
                        session.keys.reported(key, about.uid, about.path, is_wanted=live is not None)
                        self.object_syncs.lagging(session, key, live, record.since, now)
            if session.keys.unsynced.kept_count:
                self._report_kept(session, now)

    def _report_kept(self, session: NodeSession, now: float) -> None:
        """Record objects that are kept although they are not wanted, except those whose kind is about to be listed."""
        is_waiting = bool(self._desired_state.not_synced(session.node))
        for key, record in session.keys.unsynced.stopped.items():
            held, state = session.keys.held.get(key), record.state
            if record.is_reported or held is None or not isinstance(state, Withheld):
                continue
            if state.cause is Cause.DELETION_GUARD:
                session.keys.reported(key, held.uid, held.path, is_wanted=False)
                self.object_syncs.tripped(session, held, now)
            elif not is_waiting:
                session.keys.reported(key, held.uid, held.path, is_wanted=False)
                self.object_syncs.kept(session, held, state, now)
                self._node_status.changed(session.node)

    def pause_changed(self, session: NodeSession, now: float) -> None:
        """The node's pause was set, changed or removed: update the status of what waits."""
        for key, record in session.keys.unsynced.pending.items():
            if record.reported is not None:
                live = self._desired_state.live(session.node, key)
                self.object_syncs.lagging(session, key, live, record.since, now)

    def _report_paused(self, session: NodeSession, key: str, now: float) -> None:
        """Immediately: a person has requested it and is watching."""
        record, live = session.keys.unsynced.get(key), self._desired_state.live(session.node, key)
        if record is not None and not record.is_reported and live is not None:
            session.keys.reported(key, live.uid, live.path)
            self.object_syncs.lagging(session, key, live, record.since, now)

    def _object_pause_changed(self, key: str, now: float) -> None:
        """An object's pause was set, changed or removed: update its status."""
        for node, session in self._sessions.items():
            if not session.keys.live:
                continue
            record, live = session.keys.unsynced.get(key), self._desired_state.live(node, key)
            if record is None:
                self.object_syncs.in_sync(session, key, live, now)
            elif record.reported is not None and live is not None and key in session.keys.unsynced.pending:
                self.object_syncs.lagging(session, key, live, record.since, now)

    # ---- comparing again -------------------------------------------------------------------------

    def reconcile(self, now: float) -> None:
        """Repeat what events should have done already, wherever it was not done: sends, status, garbage collection."""
        for session in self._sessions.values():
            if session.keys.live:
                session.keys.diff(now)
            self._node_status.changed(session.node)
        self.compare_all(now, refresh=True)

    def compare_all(self, now: float, *, refresh: bool = False) -> None:
        """Correct the status of every node, as soon as both sides are known.

        ``refresh``: newer wanted versions of away nodes are recorded, too.
        """
        self.away.compare(None, refresh=refresh)
        for session in self._sessions.values():
            self._compare(session, now)

    def _compare(self, session: NodeSession, now: float) -> None:
        if session.keys.live and self.object_syncs.listed:
            self.object_syncs.compared(session, self._desired_state.desired_objects(session.node), now)

    def collect(self) -> int:
        """Remove documents of Nodes that were deleted while no hub ran; returns their number.

        An EdgeNode is deleted together with its Node.
        """
        gone = [node for node in self.object_syncs.nodes() if self._desired_state.is_gone(node)]
        return sum(self.object_syncs.forget_node(node) for node in gone)

    # ---- what the API says -----------------------------------------------------------------------

    def edited(self, name: status_cache.Name, node: str) -> None:
        """Others changed an ObjectSync: compare it in the next ``sweep``, or remove it if its Node is gone."""
        if not self.vanished(node) and self._desired_state.is_gone(node):
            self.object_syncs.remove(name, node)

    def vanished(self, node: str) -> bool:
        """Others deleted an ObjectSync: the node is compared in the next ``sweep``.  Returns False if it is away."""
        session = self._sessions.get(node)
        if session is None or not session.keys.live:
            return False
        self._edited.add(node)
        return True


def _is_worth_an_event(event: Parked | Unparked) -> bool:
    """Not if the object is an Event: an Event about it would be delivered and parked like the first, endlessly."""
    return event.key.partition("/")[0] not in _EVENTS
