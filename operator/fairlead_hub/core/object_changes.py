"""Objects, kinds and lists, as the watches bring them: who is concerned, and what is certain.

put, remove, relist ─▶ ObjectCache, Placement ─▶ offers to the sessions concerned
a kind or an input is listed, frozen, dropped ─▶ the sessions are compared again
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead_hub.cluster import paused_objects
from fairlead_hub.cluster.content import EDGE_ROUTES, GroupKind, LiveObject
from fairlead_hub.cluster.desired_state import DesiredState
from fairlead_hub.cluster.object_cache import ObjectChange
from fairlead_hub.core.node_terms import NodeTerms
from fairlead_hub.core.open_sessions import OpenSessions
from fairlead_hub.core.rule_changes import RuleChanges
from fairlead_hub.counts import Counts


class ObjectChanges:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    def __init__(
        self,
        sessions: OpenSessions,
        desired_state: DesiredState,
        rules: RuleChanges,
        terms: NodeTerms,
        counts: Counts,
    ) -> None:
        self._sessions = sessions
        self._object_cache = desired_state.object_cache
        self._placement = desired_state.placement
        self._rules = rules
        self._terms = terms
        self._counts = counts

    # ---- objects ---------------------------------------------------------------------------------

    def put(self, live: LiveObject, now: float) -> ObjectChange | None:
        """None: nothing to send, nothing to write."""
        before_nodes: set[str] = set()
        if live.group_kind == EDGE_ROUTES:
            before_nodes = self._placement.nodes_for(live)
            self._sessions.compare(self._rules.routes_seen(live, now))
            if live.resource.name in self._placement.rules.routes:
                for node in self._sessions.by_node:
                    self._terms.grant(node)
        change = self._object_cache.put(live)
        if change is None:
            self._counts.unchanged()
            return None
        self._changed(change, now, before_nodes)
        return change

    def remove(self, key: str, uid: str, now: float) -> ObjectChange | None:
        """None: it was not there."""
        live = self._object_cache.get(key)
        before_nodes: set[str] = set()
        if live is not None and live.group_kind == EDGE_ROUTES and live.uid == uid:
            before_nodes = self._placement.nodes_for(live)
            self._rules.routes_gone(live.resource.name, now)
        change = self._object_cache.remove(key, uid)
        if change is not None:
            self._changed(change, now, before_nodes)
        return change

    def relist(self, kind: GroupKind, uids: Mapping[str, str], now: float) -> list[ObjectChange]:
        """A list is complete: what we had and it does not name is gone."""
        gone = [live for live in self._object_cache.of_kind(kind).values() if uids.get(live.key) != live.uid]
        changes = [self.remove(live.key, live.uid, now) for live in gone]
        return [change for change in changes if change is not None]

    def _changed(self, change: ObjectChange, now: float, nodes: set[str]) -> None:
        sessions = self._sessions.by_node
        nodes |= self._placement.concerned(change, sessions)
        if paused_objects.is_changed(change.before, change.after):
            # Also where it is not wanted any more, and its deletion waits for the end of the pause.
            nodes |= {node for node, session in sessions.items() if session.unsynced.get(change.key) is not None}
        if change.after is None and change.before is not None:
            self._placement.forget(change.before)
        for node in nodes:
            self._sessions.offer(node, change.key, now)
        for node, key in self._placement.referred_by(change):
            if node in sessions:
                self._sessions.offer(node, key, now)
            else:
                self._sessions.compare((node,))

    # ---- kinds and lists -------------------------------------------------------------------------

    def kind_synced(self, kind: GroupKind) -> None:
        self._placement.paused_kinds.kind_synced(kind)
        if self._placement.listed.kind_synced(kind):
            if kind == EDGE_ROUTES:
                self.input_synced("edgeroutes")
            self._sessions.compare_all()

    def kind_unsynced(self, kind: GroupKind) -> None:
        """The watch broke in a way that needs a new list; until then nothing of it is taken away."""
        self._placement.listed.kind_unsynced(kind)

    def kind_frozen(self, kind: GroupKind, reason: str) -> None:
        """It cannot be listed: what edges hold of it stays."""
        if self._placement.listed.kind_frozen(kind, reason):
            self._sessions.compare_all()

    def kind_dropped(self, kind: GroupKind) -> None:
        """No rule names it any more."""
        self._placement.listed.kind_dropped(kind)
        self._object_cache.forget_kind(kind)
        self._sessions.compare_all()

    def kind_served(self, kind: GroupKind, answers: Mapping[str, str]) -> None:
        """What the API server says of the apiVersions rules name for a kind: "" it serves this one, or why not."""
        self._sessions.compare(self._placement.rules.set_served(kind, answers))

    def paused_before(self, kinds: Mapping[GroupKind, str]) -> None:
        """Objects of these kinds (→ apiVersion) were paused when another hub ran."""
        self._placement.paused_kinds.remember(kinds)

    def all_paused_known(self) -> None:
        """Every document that could tell is listed."""
        if self._placement.paused_kinds.listed():
            self._sessions.compare_all()

    def input_synced(self, name: str) -> None:
        """One of ``listed.INPUTS`` is listed."""
        if self._placement.listed.input_synced(name):
            self._rules.inputs_listed()
            self._sessions.compare_all()
