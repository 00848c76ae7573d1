"""The SyncController: keeps ObjectSync and EdgeNode status true to what edges hold.

    delivery events of a session ─delivered─▶ ObjectSyncStatus, NodeStatus ─▶ Notices
    every second                 ─sweep─────▶ what lags or is kept is written down; edited status is compared
    every reconcile interval     ─reconcile─▶ differences are offered again, left-over documents are collected

What parked is tried again by a timer of its own key (``delivery.backoff``), or at once when something about it changed.
Order law: an edge acknowledges what is on its disk, then the status says so.  Status may lag behind the edge's store
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
from fairlead_hub.delivery.keys.key_state import Cause, Withheld
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.settings import HubSettings
from fairlead_hub.status import status_cache
from fairlead_hub.status.away_objects import AwayObjects
from fairlead_hub.status.node_status import NodeStatus
from fairlead_hub.status.notice import Notice
from fairlead_hub.status.object_sync_status import ObjectSyncRecords

_EDGE_ROUTES = f"{deletion_blocked.EDGE_ROUTES_TYPE}/"
_EVENTS = frozenset(("events", "events.events.k8s.io"))
"""The types of Kubernetes Events; a rule may deliver them like any other kind."""


class SyncController:
    """See the module.  ``sessions`` are the open ones, kept by the hub; ``now`` is seconds of a monotonic clock."""

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
        """Nodes with status that was changed or deleted by others: compared once, however much it was."""

    # ---- delivery events -------------------------------------------------------------------------

    def delivered(self, session: NodeSession, events: Iterable[DeliveryEvent], now: float) -> list[Notice]:
        """Turn delivery events, in order, into status.  Returns what is worth a Kubernetes Event."""
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
                        text = f"tried again: {event.why}"
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
        """It has a session with this process."""
        self._node_status.opened(node)
        self.away.opened(node)

    def ended(self, node: str, now: float) -> None:
        """It has none any more."""
        self._node_status.ended(node)
        self.away.ended(node, now)

    def forget_node(self, node: str) -> int:
        """The Node is gone, and the status of its objects with it.  Returns how many documents."""
        self.away.forget(node)
        return self.object_syncs.forget_node(node)

    def object_changed(self, change: ObjectChange, now: float) -> None:
        """An object is new, another one now, or gone; where it has to be sent its session knows."""
        self.away.changed(change, now)
        if paused_objects.is_changed(change.before, change.after):
            self._object_pause_changed(change.key, now)

    # ---- every second ----------------------------------------------------------------------------

    def sweep(self, now: float, pending_seconds: float) -> None:
        """Write down who lags longer than this, and compare edited status.  Costs nothing for nodes in sync."""
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
        """What is not removed although it is not wanted there; what is only not listed yet soon will be."""
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
        """The node is paused now, for another reason, or no longer: the status of what waits says so."""
        for key, record in session.keys.unsynced.pending.items():
            if record.reported is not None:
                live = self._desired_state.live(session.node, key)
                self.object_syncs.lagging(session, key, live, record.since, now)

    def _report_paused(self, session: NodeSession, key: str, now: float) -> None:
        """At once: a person has asked for it, and looks."""
        record, live = session.keys.unsynced.get(key), self._desired_state.live(session.node, key)
        if record is not None and not record.is_reported and live is not None:
            session.keys.reported(key, live.uid, live.path)
            self.object_syncs.lagging(session, key, live, record.since, now)

    def _object_pause_changed(self, key: str, now: float) -> None:
        """An object is paused now, for another reason, or no longer: its status says so."""
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
        """Do again what events should have done already, where they did not: sends, status, garbage collection."""
        for session in self._sessions.values():
            if session.keys.live:
                session.keys.diff(now)
            self._node_status.changed(session.node)
        self.compare_all(now, refresh=True)

    def compare_all(self, now: float, *, refresh: bool = False) -> None:
        """Set right what the status of every node says, as soon as both sides are known.

        ``refresh``: of nodes that are away newer wanted versions are written down, too.
        """
        self.away.compare(None, refresh=refresh)
        for session in self._sessions.values():
            self._compare(session, now)

    def _compare(self, session: NodeSession, now: float) -> None:
        if session.keys.live and self.object_syncs.listed:
            self.object_syncs.compared(session, self._desired_state.desired_objects(session.node), now)

    def collect(self) -> int:
        """Remove what is left over of Nodes that were deleted while no hub looked; returns how many documents.

        An EdgeNode goes with its Node by itself.
        """
        gone = [node for node in self.object_syncs.nodes() if self._desired_state.is_gone(node)]
        return sum(self.object_syncs.forget_node(node) for node in gone)

    # ---- what the API says -----------------------------------------------------------------------

    def edited(self, name: status_cache.Name, node: str) -> None:
        """An ObjectSync that others changed: compared with the next ``sweep``, or removed with its Node."""
        if not self.vanished(node) and self._desired_state.is_gone(node):
            self.object_syncs.remove(name, node)

    def vanished(self, node: str) -> bool:
        """An ObjectSync was deleted by others: the node is compared with the next ``sweep`` (False: it is away)."""
        session = self._sessions.get(node)
        if session is None or not session.keys.live:
            return False
        self._edited.add(node)
        return True


def _is_worth_an_event(event: Parked | Unparked) -> bool:
    """An Event about an Event is delivered, and parked, like the first: that would never end."""
    return event.key.partition("/")[0] not in _EVENTS
