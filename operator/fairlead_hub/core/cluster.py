"""Changes that the watches report: objects, kinds, edge Nodes, SyncRules and EdgeRoutes.

    put, remove, relist      ─▶ ObjectCache ─▶ ObjectChange ┐              ┌ keys are offered to the sessions concerned
    set, break, drop a rule  ─▶ RuleReader ──▶ RulesRead ───┼─▶ _follow ──▶┤ sessions are compared again
    EdgeRoutes: both         ───────────────────────────────┘              └ status, Events
    a kind or an input is listed, frozen, dropped; a Node is labelled ─▶ sessions are compared again

``_follow`` is the only place that decides the consequences of a change.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from fairlead_hub.cluster import paused_objects, sync_rule
from fairlead_hub.cluster.content import EDGE_ROUTES, GroupKind, LiveObject, ServedKind
from fairlead_hub.cluster.desired_state import DesiredState
from fairlead_hub.cluster.object_cache import ObjectChange
from fairlead_hub.core.reports import Reports
from fairlead_hub.core.rules import RuleReader, RulesRead
from fairlead_hub.core.sessions import Sessions
from fairlead_hub.counts import Counts
from fairlead_hub.delivery import admission


class ClusterChanges:
    """See the module docstring.  ``now`` is always seconds of one monotonic clock."""

    def __init__(
        self, desired_state: DesiredState, rules: RuleReader, sessions: Sessions, reports: Reports, counts: Counts
    ) -> None:
        self._desired_state = desired_state
        self._object_cache = desired_state.object_cache
        self._placement = desired_state.placement
        self._rules = rules
        self._sessions, self._open = sessions, sessions.index
        self._terms = sessions.terms
        self._reports = reports
        self._counts = counts

    # ---- objects ---------------------------------------------------------------------------------

    def get_object(self, key: str) -> LiveObject | None:
        """The object as the watch last reported it."""
        return self._object_cache.get(key)

    def put_object(self, live: LiveObject, now: float) -> None:
        read: RulesRead | None = None
        nodes: set[str] = set()
        if live.group_kind == EDGE_ROUTES:
            nodes = self._placement.nodes_for(live)
            read = self._rules.routes_seen(live)
            self._routes_read(live.resource.name, now)
        change = self._object_cache.put(live)
        if change is None:
            self._counts.unchanged()
        self._follow(now, change=change, read=read, nodes=nodes)

    def remove_object(self, key: str, uid: str, now: float) -> None:
        live, read = self._object_cache.get(key), None
        nodes: set[str] = set()
        if live is not None and live.group_kind == EDGE_ROUTES and live.uid == uid:
            nodes = self._placement.nodes_for(live)
            read = self._rules.routes_gone(live.resource.name)
            self._routes_read(live.resource.name, now)
        self._follow(now, change=self._object_cache.remove(key, uid), read=read, nodes=nodes)

    def relist(self, kind: GroupKind, uids: Mapping[str, str], now: float) -> None:
        """A list is complete: objects we had that it does not name are deleted."""
        for live in [live for live in self._object_cache.of_kind(kind).values() if uids.get(live.key) != live.uid]:
            self.remove_object(live.key, live.uid, now)

    def _routes_read(self, name: str, now: float) -> None:
        """Handle EdgeRoutes: the topics nodes may publish to, and whether the object is readable."""
        rules = self._placement.rules
        self._reports.cloud_events.routes_read(name, rules.broken.get(f"edgeroutes/{name}", ""), now)
        if name in rules.routes:
            for node in self._open.by_node:
                self._terms.grant(node)

    def _follow(
        self,
        now: float,
        *,
        change: ObjectChange | None = None,
        read: RulesRead | None = None,
        nodes: Set[str] = frozenset(),
    ) -> None:
        """Apply all consequences of a change of an object, a rule, or one that is both.

        ``nodes``: those the object was for before.
        """
        if read is not None:
            if read.notice is not None:
                self._reports.notices([read.notice], now)
                self._terms.node_status.changed(*read.nodes)
            self._open.compare(read.nodes)
        if change is None:
            return
        key, sessions = change.key, self._open.by_node
        concerned = nodes | self._placement.concerned(change, sessions)
        if paused_objects.is_changed(change.before, change.after):
            # Also if it is no longer wanted and its deletion waits for the end of the pause.
            concerned |= {node for node, session in sessions.items() if session.keys.unsynced.get(key) is not None}
        if change.after is None and change.before is not None:
            self._placement.forget(change.before)
        for node in concerned:
            self._open.offer(node, key, now)
        for node, referrer in self._placement.referred_by(change):
            if node in sessions:
                self._open.offer(node, referrer, now)
            else:
                self._open.compare((node,))
        self._reports.sync_controller.object_changed(change, now)

    # ---- SyncRules -------------------------------------------------------------------------------

    def set_rule(self, rule: sync_rule.Rule, now: float) -> bool:
        """Returns False if nothing changed."""
        rules = self._placement.rules
        if rules.readable.get(rule.name) == rule and f"syncrules/{rule.name}" not in rules.broken:
            return False
        self._follow(now, read=self._rules.read(rule))
        return True

    def break_rule(self, found: sync_rule.BrokenRule, now: float) -> None:
        """The rule is unreadable: its last readable form stays in force, and nothing it selects is deleted."""
        self._follow(now, read=self._rules.unreadable(found))

    def drop_rule(self, name: str) -> None:
        was_broken = f"syncrules/{name}" in self._placement.rules.broken
        read = self._rules.gone(name)
        if was_broken:
            self._terms.node_status.changed(*read.nodes)
        self._open.compare_all()

    def rules_named(self, names: Set[str]) -> None:
        """A list names these SyncRules: all others are gone."""
        for name in self._placement.rules.rule_names() - names:
            self.drop_rule(name)
        self.input_synced("syncrules")

    # ---- edge Nodes ------------------------------------------------------------------------------

    def set_node(self, name: str, uid: str, labels: Mapping[str, str], now: float) -> None:
        """Add or update an edge Node.  A new UID is a new node: what the old one left behind is removed."""
        status = self._terms.node_status
        known = status.node_uids.get(name)
        if known is not None and known != uid:
            self.drop_node(name, now)
        status.set_uid(name, uid)
        if self._placement.rules.set_node(name, labels):
            status.relabelled(name)
            self._open.compare((name,))

    def has_node(self, name: str) -> bool:
        return name in self._terms.node_status.node_uids

    def drop_node(self, name: str, now: float) -> None:
        """The Node was deleted or is no longer an edge node."""
        self._placement.rules.drop_node(name)
        reason = f"Node {name} was deleted or is no edge node"
        self._sessions.end_node(name, "node_deleted", reason, admission.NODE_GONE_RETRY_SECONDS, now)
        self._terms.drop(name)
        self._counts.collected(self._reports.sync_controller.forget_node(name))
        self._terms.node_status.forget(name, self._terms.of(name), now)

    def nodes_named(self, names: Set[str], now: float) -> None:
        """A list names these edge Nodes: all others are gone."""
        for name in self._terms.node_status.node_uids.keys() - names:
            self.drop_node(name, now)
        self.input_synced("nodes")

    # ---- kinds and lists -------------------------------------------------------------------------

    def wanted_kinds(self) -> dict[GroupKind, tuple[str, ...]]:
        """The kinds to watch, each with its apiVersions in the order in which rules name them."""
        return self._placement.kinds()

    def is_settled(self, kind: GroupKind, versions: tuple[str, ...]) -> bool:
        """Whether the kind is listed and every one of these versions is served."""
        unserved = self._placement.rules.unserved
        return kind in self._placement.listed.kinds and not any((v, kind[1]) in unserved for v in versions)

    def is_unserved(self, kind: GroupKind, version: str = "") -> bool:
        """Whether the API server serves none of the versions that rules name, or not this one."""
        rules = self._placement.rules
        return (version, kind[1]) in rules.unserved if version else rules.is_unserved(kind)

    def is_pending(self, kind: GroupKind) -> bool:
        """Whether the kind is neither listed nor known to be unlistable."""
        listed = self._placement.listed
        return kind not in listed.kinds and kind not in listed.frozen and not self.is_unserved(kind)

    def know_kind(self, kind: ServedKind) -> None:
        """Discovery found a kind that a rule names."""
        self._desired_state.know_kind(kind)

    def kind_synced(self, kind: GroupKind) -> None:
        self._placement.paused_kinds.kind_synced(kind)
        if self._placement.listed.kind_synced(kind):
            if kind == EDGE_ROUTES:
                self.input_synced("edgeroutes")
            self._open.compare_all()

    def kind_unsynced(self, kind: GroupKind) -> None:
        """The watch broke in a way that requires a new list; until then no object of the kind is deleted anywhere."""
        self._placement.listed.kind_unsynced(kind)

    def kind_frozen(self, kind: GroupKind, reason: str) -> None:
        """The kind cannot be listed: edges keep the objects they hold of it."""
        if self._placement.listed.kind_frozen(kind, reason):
            self._open.compare_all()

    def kind_dropped(self, kind: GroupKind) -> None:
        """No rule names the kind any more."""
        self._placement.listed.kind_dropped(kind)
        self._object_cache.forget_kind(kind)
        self._open.compare_all()

    def kind_served(self, kind: GroupKind, answers: Mapping[str, str]) -> None:
        """What the API server answered per apiVersion that rules name: "" if it serves this one, otherwise why not."""
        self._open.compare(self._placement.rules.set_served(kind, answers))

    def paused_before(self, collection: str) -> None:
        """ObjectSyncs of this collection are listed: they name the kinds with objects paused under an earlier hub."""
        syncs, placement = self._reports.sync_controller.object_syncs, self._placement
        placement.paused_kinds.remember(syncs.paused_kinds(collection, placement.listed.kinds))

    def all_paused_known(self) -> None:
        """Every document that may record a pause is listed."""
        if self._placement.paused_kinds.listed():
            self._open.compare_all()

    def input_synced(self, name: str) -> None:
        """One of ``listed.INPUTS`` is listed."""
        if self._placement.listed.input_synced(name):
            self._rules.inputs_listed()
            self._open.compare_all()
