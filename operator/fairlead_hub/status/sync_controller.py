"""Keeps the records true to the sessions: what became of deliveries goes in, what the API says of records is compared.

    NodeSession ─outcomes─▶ drain ─▶ ObjectSync, EdgeNode, Counts, KubeEvents, CloudEvents
    watch of our own documents ─▶ vanished, observed, listed ─▶ Records.compared

A record may lag, never lead; whatever a crash left half done is found again here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from fairlead_hub.cluster import deletion_blocked
from fairlead_hub.cluster.desired_state import DesiredState
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.counts import Counts
from fairlead_hub.delivery.delivery_events import Acked, Compared, Parked, Recovered, Removed, Retried, Unparked
from fairlead_hub.delivery.key_state import Cause, Withheld
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.events import kube_events
from fairlead_hub.events.cloud_events import CloudEvents
from fairlead_hub.status import status_cache
from fairlead_hub.status.node_status import EDGE_NODES, NodeStatus
from fairlead_hub.status.object_sync_status import COLLECTIONS, ObjectSyncStatus

_EVENTS = frozenset(("events", "events.events.k8s.io"))
"""The types of Kubernetes Events; a rule may deliver them like any other kind."""

_EDGE_ROUTES = f"{deletion_blocked.EDGE_ROUTES_TYPE}/"


class SyncController:
    """See the module.  ``sessions`` are the open ones, kept by the hub; ``now`` is seconds of a monotonic clock."""

    def __init__(
        self,
        sessions: Mapping[str, NodeSession],
        *,
        desired_state: DesiredState,
        placement: Placement,
        object_syncs: ObjectSyncStatus,
        node_status: NodeStatus,
        counts: Counts,
        events: kube_events.KubeEvents,
        cloud_events: CloudEvents,
    ) -> None:
        self._sessions = sessions
        self._desired_state = desired_state
        self._placement = placement
        self._object_syncs = object_syncs
        self._cache = object_syncs.cache
        self._node_status = node_status
        self._counts = counts
        self._events = events
        self._cloud_events = cloud_events
        self._doubtful: set[str] = set()
        """Nodes with records that somebody changed or deleted: compared once, however many there were."""

    # ---- deliveries ------------------------------------------------------------------------------

    def drain(self, session: NodeSession, now: float) -> None:
        """Take every outcome of the session, once."""
        self._object_syncs.now = now
        outcomes = session.take_events()
        for outcome in outcomes:
            match outcome:
                case Acked():
                    self._counts.acked(outcome.seconds)
                    if outcome.key.startswith(_EDGE_ROUTES):
                        self._node_status.changed(session.node)
                    self._object_syncs.acked(session, outcome, self._desired_state.live(session.node, outcome.key))
                case Removed():
                    self._counts.removed += 1
                    self._object_syncs.removed(session, outcome)
                case Parked():
                    self._counts.parked(outcome.code)
                    self._object_syncs.parked(session, outcome, self._desired_state.live(session.node, outcome.key))
                    self._happened(session.node, outcome, "Warning", "Parked", f"{outcome.code}: {outcome.reason}")
                    self._cloud_events.object_parked(session.node, outcome, now)
                    self._node_status.changed(session.node)
                case Unparked():
                    self._object_syncs.unparked(session, outcome, self._desired_state.live(session.node, outcome.key))
                    if outcome.why != "unwanted":
                        self._happened(session.node, outcome, "Normal", "Unparked", f"tried again: {outcome.why}")
                    self._cloud_events.object_unparked(session.node, outcome, now)
                    self._node_status.changed(session.node)
                case Retried():
                    self._counts.retried(outcome.code)
                case Recovered():
                    self._object_syncs.recovered(session, outcome, self._desired_state.live(session.node, outcome.key))
                case Compared():
                    self._counts.divergent_buckets += outcome.divergent_buckets
                    self._compare(session)
                    self._node_status.changed(session.node)
                case _:
                    assert_never(outcome)
        if outcomes and not session.unsynced.pending:
            self._node_status.changed(session.node)

    def _happened(self, node: str, outcome: Parked | Unparked, type: kube_events.Type, reason: str, text: str) -> None:
        if outcome.key.partition("/")[0] in _EVENTS:
            return  # an Event about an Event is delivered, and parked, like the first: that would never end
        regarding = self._object_syncs.regarding(node, outcome.path, outcome.uid)
        self._events.note(regarding, type, reason, text, self._object_syncs.now, self._object_syncs.text())

    def sweep(self, now: float, pending_seconds: float) -> None:
        """Write down who lags longer than this; asked every second or so.  Costs nothing for nodes in sync."""
        self._object_syncs.now = now
        doubtful, self._doubtful = self._doubtful, set()
        for node in doubtful & self._sessions.keys():
            self._compare(self._sessions[node])
        for session in self._sessions.values():
            for key, record in session.unsynced.pending.items():
                seconds = now - record.since
                if seconds < pending_seconds:
                    break  # oldest first
                if record.reported is None:
                    live = self._desired_state.live(session.node, key)
                    about = live.held if live is not None else session.held.get(key)
                    if about is not None:
                        session.reported(key, about.uid, about.path)
                        self._object_syncs.lagging(session, key, live, seconds)
            if session.unsynced.kept_count:
                self._report_kept(session)

    def _report_kept(self, session: NodeSession) -> None:
        """What is not removed although nobody wants it there; what is only not listed yet soon will be."""
        is_waiting = bool(self._desired_state.not_synced(session.node))
        for key, record in session.unsynced.stopped.items():
            held, state = session.held.get(key), record.state
            if record.reported is not None or held is None or not isinstance(state, Withheld):
                continue
            if state.cause is Cause.DELETION_GUARD:
                session.reported(key, held.uid, held.path)
                self._object_syncs.tripped(session, held)
            elif not is_waiting:
                session.reported(key, held.uid, held.path)
                self._object_syncs.kept(session, held, state.why)
                self._node_status.changed(session.node)

    def pause_changed(self, session: NodeSession) -> None:
        """The node is held now, for another reason, or no longer: records of what waits say so."""
        for key, record in session.unsynced.pending.items():
            if record.reported is not None:
                live = self._desired_state.live(session.node, key)
                self._object_syncs.lagging(session, key, live, self._object_syncs.now - record.since)

    # ---- comparing -------------------------------------------------------------------------------

    def _compare(self, session: NodeSession) -> None:
        """Set right what the records of a node say, as soon as both sides are known."""
        if session.live and all(name in self._cache.synced for name in COLLECTIONS):
            self._object_syncs.compared(session, self._desired_state.desired_objects(session.node))

    def compare_all(self, now: float) -> None:
        """The records' half of the SyncController's slow pass."""
        self._object_syncs.now = now
        self._collect_vanished()
        for session in self._sessions.values():
            self._compare(session)

    def _collect_vanished(self) -> None:
        """Nodes that were deleted while no hub looked leave documents behind; EdgeNode goes with its Node by itself."""
        if "nodes" in self._placement.inputs_synced:
            for node in self._cache.nodes():
                if node not in self._placement.nodes:
                    self._counts.records_collected += self._object_syncs.forget_node(node)

    # ---- what the API says -----------------------------------------------------------------------

    def listed(self, collection: str, now: float) -> None:
        """The first list of our own documents is in: what was decided without them is decided again."""
        self._cache.synced.add(collection)
        self.compare_all(now)

    def observed(self, name: status_cache.Name, node: str, observed: status_cache.Observed, now: float) -> None:
        """A record as it stands; one that somebody else changed is set right with the next ``sweep``."""
        if not self._cache.observe(name, node, observed) or name[0] not in self._cache.synced:
            return
        self._object_syncs.now = now
        session = self._sessions.get(node)
        if session is not None and session.live:
            self._doubtful.add(node)
        elif "nodes" in self._placement.inputs_synced and node not in self._placement.nodes:
            self._cache.want(status_cache.Removal(name=name, node=node))

    def vanished(self, name: status_cache.Name, node: str, now: float, version: str = "") -> None:
        """Somebody deleted a document by hand: it is written again if it still says something true."""
        self._object_syncs.now = now
        if not self._cache.vanished(name, node, version):
            return
        session = self._sessions.get(node)
        if name[0] == EDGE_NODES:
            self._node_status.vanished(node)
        elif session is not None and session.live:
            self._doubtful.add(node)
