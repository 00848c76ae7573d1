"""Which node should hold which object.

    rules × node labels × object cache ──desired(node, object)──▶ Desired(priority, delivery) or None
                                  ──nodes_for(object)───▶ the nodes that a change of it concerns
                                  ──desired_objects(node)──▶ all that a node should hold, when it connects

``rules`` (``RuleSet``) knows which rule selects which node, ``listed`` (``Listed``) whether enough is known to delete
anything, and ``deletion_blocked`` why a node must not delete an object yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.content import EDGE_ROUTES, GroupKind, LiveObject
from fairlead_hub.cluster.listed import Listed
from fairlead_hub.cluster.object_cache import ObjectCache, ObjectChange
from fairlead_hub.cluster.paused_objects import PausedKinds
from fairlead_hub.cluster.rule_set import RuleMatches, RuleSet
from fairlead_hub.settings import NodeDelivery


class Desired(msgspec.Struct, frozen=True, kw_only=True):
    """A node should hold this object, with this priority and delivery policy."""

    live: LiveObject
    priority: int
    delivery: NodeDelivery


class Placement:
    """Combines rules and object cache; reads both and changes neither."""

    def __init__(self, object_cache: ObjectCache, default: NodeDelivery) -> None:
        self.object_cache = object_cache
        self.rules = RuleSet(RuleMatches(object_cache))
        self.listed = Listed(self.rules)
        self.paused_kinds = PausedKinds(object_cache)
        self._default = default
        self._generation = 0
        """The version of the rules that the caches below are derived from."""
        self._covered: dict[tuple[str, int], tuple[int, dict[str, LiveObject]]] = {}
        self._wishes: dict[str, tuple[LiveObject, list[tuple[sync_rule.Rule, sync_rule.RuleEntry, Desired]]]] = {}
        """For each object key: what the rules that cover it request, regardless of the node."""

    def kinds(self) -> dict[GroupKind, tuple[str, ...]]:
        """Every kind to watch → its apiVersions: kinds that rules name, and kinds with paused objects."""
        return self.paused_kinds.kinds() | self.rules.kinds()

    def _refresh(self) -> None:
        """Drop what was derived from older rules."""
        if self._generation != self.rules.generation:
            self._generation = self.rules.generation
            self._covered.clear()
            self._wishes.clear()

    def desired(self, node: str, live: LiveObject) -> Desired | None:
        """What this node should hold of the object, if anything.

        If several rules select it, the most urgent priority and the first rule's delivery policy apply.
        """
        if self._generation != self.rules.generation:
            self._refresh()
        known = self._wishes.get(live.key)
        if known is None or known[0] is not live:
            if live.group_kind == EDGE_ROUTES:
                return self._wish_for_routes(node, live)
            known = (live, self._covering(live))
        found: Desired | None = None
        members = self.rules.members
        for rule, entry, desired in known[1]:
            # This is asked four times per delivery, so the most common answer needs no further call.
            if node in members[rule.name] and (entry.select == "all" or self._selects(entry, node, live)):
                if found is None:
                    found = desired
                elif entry.priority < found.priority:
                    found = msgspec.structs.replace(found, priority=entry.priority)
        return found

    def takes_status(self, node: str, live: LiveObject) -> bool:
        """Whether a rule that places the object on this node allows the node to write its status.

        Never for our own kinds, whatever a rule says: the cluster may have accepted it without validation.
        """
        if live.group_kind[0] == EDGE_ROUTES[0]:
            return False
        return any(
            entry.status_from_edge and node in self.rules.members[rule.name] and self._selects(entry, node, live)
            for rule, entry, _ in self._covering(live)
        )

    def _wish_for_routes(self, node: str, live: LiveObject) -> Desired | None:
        routes = self.rules.routes.get(live.resource.name)
        if routes is None or node not in self.rules.nodes or not routes.nodes.matches(self.rules.nodes[node]):
            return None
        return Desired(live=live, priority=sync_rule.ROUTES_PRIORITY, delivery=self._default)

    def _covering(self, live: LiveObject) -> list[tuple[sync_rule.Rule, sync_rule.RuleEntry, Desired]]:
        """Asked four times for each delivery, so the answer is kept until the object or the rules change."""
        self._refresh()
        known = self._wishes.get(live.key)
        if known is not None and known[0] is live:
            return known[1]
        covering = [
            (rule, entry, Desired(live=live, priority=entry.priority, delivery=entry.delivery or self._default))
            for rule, entry in self.rules.entries(live.group_kind)
            if entry.covers(live)
        ]
        self._wishes[live.key] = (live, covering)
        return covering

    def forget(self, gone: LiveObject) -> None:
        """The object was deleted."""
        self._wishes.pop(gone.key, None)
        self.rules.forget(gone)

    def _selects(self, entry: sync_rule.RuleEntry, node: str, live: LiveObject) -> bool:
        match entry.select:
            case "all":
                return True
            case "bound":
                return live.node_name == node
            case "referenced":
                return node in self.object_cache.referrers(live.key)

    def nodes_for(self, live: LiveObject, among: Mapping[str, object] | None = None) -> set[str]:
        """Every node that should hold the object now; with ``among``, only the nodes that are keys of it.

        The cost grows with the connected nodes, not with those that are away.
        """
        if live.group_kind == EDGE_ROUTES:
            routes = self.rules.routes.get(live.resource.name)
            return {n for n, labels in self.rules.nodes.items() if routes is not None and routes.nodes.matches(labels)}
        found: set[str] = set()
        for rule, entry, _ in self._covering(live):
            members = self.rules.members[rule.name]
            match entry.select:
                case "all":
                    found.update(members if among is None else _both(members, among))
                case "bound":
                    found |= members & {live.node_name}
                case "referenced":
                    found |= members & set(self.object_cache.referrers(live.key))
        return found

    def concerned(self, change: ObjectChange, among: Mapping[str, object]) -> set[str]:
        """Nodes of ``among`` that should hold the object before or after the change.

        Also updates its rules' counts.
        """
        found: set[str] = set()
        rules: list[list[str]] = [[], []]
        for side, live in enumerate((change.before, change.after)):
            if live is not None:
                found |= self.nodes_for(live, among)
                rules[side] = self._rules_of(live)
        self.rules.matches.object_changed(*rules)
        return found

    def _rules_of(self, live: LiveObject) -> list[str]:
        if live.group_kind == EDGE_ROUTES:  # EdgeRoutes are never cached with the requests of rules
            return [rule.name for rule, entry in self.rules.entries(EDGE_ROUTES) if entry.covers(live)]
        return [rule.name for rule, _, _ in self._covering(live)]

    def referred_by(self, change: ObjectChange) -> Iterator[tuple[str, str]]:
        """After a change of a Pod: (node, key) of each object that is now wanted because of it, or no longer is."""
        before, after = change.before, change.after
        where_before = before.node_name if before is not None else ""
        where_after = after.node_name if after is not None else ""
        if where_before == where_after and before is not None and after is not None:
            yield from ((where_after, key) for key in before.references ^ after.references)
            return
        for where, live in ((where_before, before), (where_after, after)):
            if where and live is not None:
                yield from ((where, key) for key in live.references)

    def desired_objects(self, node: str) -> dict[str, LiveObject]:
        """Everything this node should hold, by key."""
        found: dict[str, LiveObject] = {}
        if node not in self.rules.nodes:
            return found
        for routes in self.rules.routes.values():
            live = self.object_cache.get(_routes_key(routes.name))
            if live is not None and routes.nodes.matches(self.rules.nodes[node]):
                found[live.key] = live
        for rule in self.rules.readable.values():
            if node in self.rules.members[rule.name]:
                for index, entry in enumerate(rule.entries):
                    if not self.rules.in_force(entry):
                        continue
                    found.update((live.key, live) for live in self._candidates(rule, index, entry, node))
        return found

    def _candidates(
        self, rule: sync_rule.Rule, index: int, entry: sync_rule.RuleEntry, node: str
    ) -> Iterable[LiveObject]:
        match entry.select:
            case "all":
                return self._covered_by(rule, index, entry).values()
            case "bound":
                return (live for live in self.object_cache.bound_to(node).values() if entry.covers(live))
            case "referenced":
                return self._referenced(entry, node)

    def _referenced(self, entry: sync_rule.RuleEntry, node: str) -> Iterator[LiveObject]:
        for key in self.object_cache.referred_from(node):
            live = self.object_cache.get(key)
            if live is not None and live.group_kind == entry.group_kind and entry.covers(live):
                yield live

    def _covered_by(self, rule: sync_rule.Rule, index: int, entry: sync_rule.RuleEntry) -> dict[str, LiveObject]:
        """Shared by all nodes, so that two thousand nodes coming back together do not filter the same kind each."""
        self._refresh()
        generation = self.object_cache.generation[entry.group_kind]
        known = self._covered.get((rule.name, index))
        if known is not None and known[0] == generation:
            return known[1]
        covered = {key: live for key, live in self.object_cache.of_kind(entry.group_kind).items() if entry.covers(live)}
        self._covered[(rule.name, index)] = (generation, covered)
        return covered


def _routes_key(name: str) -> str:
    return f"edgeroutes.fairlead.dev//{name}"


def _both(members: frozenset[str], among: Mapping[str, object]) -> Iterator[str]:
    """The intersection; iterates over the smaller collection."""
    if len(members) < len(among):
        return (name for name in members if name in among)
    return (name for name in among if name in members)
