"""Which node should hold which object, and whether we know enough to take anything away.

    rules × node labels × object cache ──desired(node, object)──▶ Desired(priority, delivery) or None
                                  ──nodes_for(object)───▶ who is concerned by a change
                                  ──desired_objects(node)──▶ all a node should hold (asked when it connects)

No delete is ever derived from a cache that is not synced: ``deletion_blocked`` says why a node may not lose an object
yet.  A kind that cannot be listed (403, CRD gone) is *frozen*: what is there stays.

What is wrong with one rule concerns that rule alone.  One that cannot be read stays in force as it could be read last,
and one that names a version which is not served selects nothing while another version of the kind is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.content import EDGE_ROUTES, POD, GroupKind, LiveObject
from fairlead_hub.cluster.object_cache import Change, ObjectCache
from fairlead_hub.cluster.rule_matches import RuleMatches
from fairlead_hub.settings import Delivery

EDGE_NODES = "edgenodes"
INPUTS = ("nodes", "syncrules", "edgeroutes", EDGE_NODES)
"""What must be listed before anything is decided; EdgeNodes, because a node may be held."""

GONE_MAX = 100_000
"""Deleted objects whose labels are remembered; of others nobody knows them, and they are kept."""


class Desired(msgspec.Struct, frozen=True, kw_only=True):
    """A node should hold this object; how soon, and how hard to try."""

    live: LiveObject
    priority: int
    delivery: Delivery


class Placement:
    """Rules, nodes and the state of the watches; reads the object cache, changes nothing in it."""

    def __init__(self, object_cache: ObjectCache, default: Delivery) -> None:
        self.object_cache = object_cache
        self._default = default
        self.nodes: dict[str, Mapping[str, str]] = {}
        self.rules: dict[str, sync_rule.Rule] = {}
        self.routes: dict[str, sync_rule.Routes] = {}
        self.broken: dict[str, str] = {}
        """``syncrules/name`` or ``edgeroutes/name`` → why it could not be read."""
        self.reaches: dict[str, sync_rule.Rule] = {}
        """By the name of a broken SyncRule: what it may have selected besides its last readable form."""
        self.gone: dict[str, Mapping[str, str]] = {}
        """Labels of what was deleted while a rule could not be read, by key."""
        self.synced: set[GroupKind] = set()
        self.frozen: dict[GroupKind, str] = {}
        self._unserved: dict[tuple[str, str], str] = {}
        self._served: set[tuple[str, str]] = set()
        self.inputs_synced: set[str] = set()
        self._matches = RuleMatches(object_cache)
        self._stale = False
        self._kinds_served: set[GroupKind] = set()
        self._named: dict[GroupKind, list[tuple[sync_rule.Rule, sync_rule.Entry]]] = {}
        """By kind: every entry that names it, also at a version that is not served."""
        self._entries: dict[GroupKind, list[tuple[sync_rule.Rule, sync_rule.Entry]]] = {}
        self._rule_nodes: dict[str, frozenset[str]] = {}
        self._covered: dict[tuple[str, int], tuple[int, dict[str, LiveObject]]] = {}
        self._wishes: dict[str, tuple[LiveObject, list[tuple[sync_rule.Rule, sync_rule.Entry, Desired]]]] = {}
        """By key: what the rules that cover an object wish for it, whichever the node."""

    # ---- inputs ----------------------------------------------------------------------------------

    def set_node(self, name: str, labels: Mapping[str, str]) -> bool:
        """False when nothing changed (a heartbeat)."""
        if self.nodes.get(name) == labels:
            return False
        self.nodes[name] = labels
        for rule in self.rules.values():
            members = self._rule_nodes[rule.name]
            if rule.nodes.matches(labels) != (name in members):
                self._rule_nodes[rule.name] = members ^ {name}
                self._matches.touch((rule.name,))
        return True

    def drop_node(self, name: str) -> bool:
        if self.nodes.pop(name, None) is None:
            return False
        for rule_name, members in self._rule_nodes.items():
            if name in members:
                self._rule_nodes[rule_name] = members - {name}
                self._matches.touch((rule_name,))
        return True

    def set_rule(self, rule: sync_rule.Rule) -> frozenset[str]:
        """Returns the nodes it concerns, before or after."""
        before = self.unreadable_at(rule.name) | self._rule_nodes.get(rule.name, frozenset())
        self._matches.touch((rule.name,))
        self.broken.pop(f"syncrules/{rule.name}", None)
        self.reaches.pop(rule.name, None)
        self.rules[rule.name] = rule
        self._rule_nodes[rule.name] = frozenset(n for n, labels in self.nodes.items() if rule.nodes.matches(labels))
        self._index_rules()
        return before | self._rule_nodes[rule.name]

    def drop_rule(self, name: str) -> frozenset[str]:
        before = self.unreadable_at(name)
        self._matches.touch((name,))
        self.broken.pop(f"syncrules/{name}", None)
        self.reaches.pop(name, None)
        if self.rules.pop(name, None) is None:
            return before
        self._index_rules()
        return before | self._rule_nodes.pop(name)

    def break_rule(self, found: sync_rule.Unreadable) -> frozenset[str]:
        """It cannot be read: the last readable form of the same object stays in force.  Returns whom it concerns."""
        known = self.rules.get(found.name)
        before: frozenset[str] = frozenset()
        if known is not None and known.uid != found.uid:
            before = self.drop_rule(found.name)  # that one is gone; this one only has its name
            known = None
        if known is None and found.last is not None:
            before |= self.set_rule(found.last)
        self._matches.touch((found.name,))
        self.broken[f"syncrules/{found.name}"] = found.reason
        if found.reach is not None and known is None:  # of what was in force here we have the form
            self.reaches[found.name] = found.reach
        return before | self.unreadable_at(found.name)

    def set_served(self, kind: GroupKind, answers: Mapping[str, str]) -> frozenset[str]:
        """What the API server says of apiVersions of a kind: "" it serves this one, or why not.

        Returns the nodes a difference concerns.
        """
        changed = [version for version, why in answers.items() if why != self._answer((version, kind[1]))]
        for version in changed:
            if answers[version]:
                self._served.discard((version, kind[1]))
                self._unserved[(version, kind[1])] = answers[version]
            else:
                self._served.add((version, kind[1]))
                self._unserved.pop((version, kind[1]), None)
        if not changed:
            return frozenset()
        self._index_rules()
        self.touch_rules(kind)
        return frozenset().union(*(self._rule_nodes[rule.name] for rule, _ in self.named(kind)))

    def _answer(self, version_kind: tuple[str, str]) -> str | None:
        return "" if version_kind in self._served else self._unserved.get(version_kind)

    def _index_rules(self) -> None:
        """The next question makes the index anew: a list brings thousands of rules one by one."""
        self._stale = True
        self._covered.clear()
        self._wishes.clear()

    def _refresh(self) -> None:
        if not self._stale:
            return
        self._stale = False
        named: dict[GroupKind, list[tuple[sync_rule.Rule, sync_rule.Entry]]] = defaultdict(list)
        # By name, so that which of two rules wins does not depend on who was created first.
        for name in sorted(self.rules):
            for entry in self.rules[name].entries:
                named[entry.group_kind].append((self.rules[name], entry))
        self._named = dict(named)
        known = {(entry.api_version, entry.kind) for pairs in named.values() for _, entry in pairs}
        self._served &= known
        self._unserved = {pair: why for pair, why in self._unserved.items() if pair in known}
        self._kinds_served = {
            kind for kind, pairs in named.items() if any(self._is_served(entry) for _, entry in pairs)
        }
        self._entries = {}
        for kind, pairs in named.items():
            if in_force := [pair for pair in pairs if self.in_force(pair[1])]:
                self._entries[kind] = in_force
        by_rule: dict[str, list[sync_rule.Entry]] = defaultdict(list)
        for pairs in self._entries.values():
            for rule, entry in pairs:
                by_rule[rule.name].append(entry)
        self._matches.indexed(by_rule)

    def touch_rules(self, kind: GroupKind) -> None:
        """Whether this kind can be listed has changed, and with it what the status of rules that name it says."""
        self._matches.touch(rule.name for rule, _ in self.named(kind))

    def _is_served(self, entry: sync_rule.Entry) -> bool:
        return (entry.api_version, entry.kind) in self._served

    def in_force(self, entry: sync_rule.Entry) -> bool:
        """Does it select anything?  Not if its version is not served; nor before that is known, while another is."""
        self._refresh()
        if self._is_served(entry):
            return True
        return (entry.api_version, entry.kind) not in self._unserved and entry.group_kind not in self._kinds_served

    @property
    def unserved(self) -> Mapping[tuple[str, str], str]:
        """(apiVersion, kind) that rules name and the API server does not serve → its answer."""
        self._refresh()
        return self._unserved

    @property
    def matches(self) -> RuleMatches:
        """Objects each rule selects, and whose status may have changed."""
        self._refresh()
        return self._matches

    # ---- questions -------------------------------------------------------------------------------

    def kinds(self) -> dict[GroupKind, tuple[str, ...]]:
        """Every kind a rule names (and Pods where something is ``referenced``) → the apiVersions to watch it at: the
        first one that is served counts."""
        self._refresh()
        found = {
            kind: tuple(dict.fromkeys(entry.api_version for _, entry in entries))
            for kind, entries in self._named.items()
        }
        if any(entry.select == "referenced" for entries in self._named.values() for _, entry in entries):
            found.setdefault(POD, ("v1",))
        return found

    def named(self, kind: GroupKind) -> list[tuple[sync_rule.Rule, sync_rule.Entry]]:
        """Entries that name this kind, by rule name, in force or not."""
        self._refresh()
        return self._named.get(kind, [])

    def rule_names(self) -> set[str]:
        """Every SyncRule there is, readable or not."""
        return {*self.rules, *self.broken_names("syncrules")}

    def broken_names(self, collection: str) -> list[str]:
        """Names of the ``syncrules`` or ``edgeroutes`` that cannot be read, sorted."""
        return sorted(key.partition("/")[2] for key in self.broken if key.startswith(f"{collection}/"))

    def rule_nodes(self, name: str) -> frozenset[str]:
        return self._rule_nodes.get(name, frozenset())

    def unreadable_at(self, name: str) -> frozenset[str]:
        """Nodes that a SyncRule which cannot be read concerns, as far as that can be told."""
        if f"syncrules/{name}" not in self.broken:
            return frozenset()
        reach = self.reaches.get(name)
        found = self.rule_nodes(name)
        if reach is not None:
            found |= {node for node, labels in self.nodes.items() if reach.nodes.matches(labels)}
        return found

    def unreadable_for(self, node: str) -> list[str]:
        """Broken SyncRules that concern this node, by name."""
        return [name for name in self.broken_names("syncrules") if self.concerns(name, node)] if self.broken else []

    def concerns(self, name: str, node: str) -> bool:
        """Does a rule select this node, or may it have?"""
        reach, labels = self.reaches.get(name), self.nodes.get(node)
        may_have = reach is not None and labels is not None and reach.nodes.matches(labels)
        return may_have or node in self.rule_nodes(name)

    def desired(self, node: str, live: LiveObject) -> Desired | None:
        """Should this node hold it?  Of several rules the most urgent priority and the first rule's delivery count."""
        known = self._wishes.get(live.key)
        if known is None or known[0] is not live:
            if live.group_kind == EDGE_ROUTES:
                return self._wish_for_routes(node, live)
            known = (live, self._covering(live))
        found: Desired | None = None
        for rule, entry, desired in known[1]:
            if node in self._rule_nodes[rule.name] and self._selects(entry, node, live):
                if found is None:
                    found = desired
                elif entry.priority < found.priority:
                    found = msgspec.structs.replace(found, priority=entry.priority)
        return found

    def _wish_for_routes(self, node: str, live: LiveObject) -> Desired | None:
        routes = self.routes.get(live.resource.name)
        if routes is None or node not in self.nodes or not routes.nodes.matches(self.nodes[node]):
            return None
        return Desired(live=live, priority=sync_rule.ROUTES_PRIORITY, delivery=self._default)

    def _covering(self, live: LiveObject) -> list[tuple[sync_rule.Rule, sync_rule.Entry, Desired]]:
        """Asked four times for each delivery, so the answer is kept until the object or the rules change."""
        known = self._wishes.get(live.key)
        if known is not None and known[0] is live:
            return known[1]
        self._refresh()
        covering = [
            (rule, entry, Desired(live=live, priority=entry.priority, delivery=entry.delivery or self._default))
            for rule, entry in self._entries.get(live.group_kind, ())
            if entry.covers(live)
        ]
        self._wishes[live.key] = (live, covering)
        return covering

    def forget(self, gone: LiveObject) -> None:
        """The object is gone; its labels still tell whether a rule that cannot be read selected it."""
        self._wishes.pop(gone.key, None)
        if self.broken:
            self.gone[gone.key] = gone.labels
            if len(self.gone) > GONE_MAX:
                del self.gone[next(iter(self.gone))]
        elif self.gone:
            self.gone.clear()

    def _selects(self, entry: sync_rule.Entry, node: str, live: LiveObject) -> bool:
        match entry.select:
            case "all":
                return True
            case "bound":
                return live.node_name == node
            case "referenced":
                return node in self.object_cache.referrers(live.key)

    def nodes_for(self, live: LiveObject, among: Mapping[str, object] | None = None) -> set[str]:
        """Every node that should hold it now; with ``among`` only those of them that are keys there.

        A change costs as much as the nodes that are there to hear of it, however many are away.
        """
        if live.group_kind == EDGE_ROUTES:
            routes = self.routes.get(live.resource.name)
            return {n for n, labels in self.nodes.items() if routes is not None and routes.nodes.matches(labels)}
        found: set[str] = set()
        for rule, entry, _ in self._covering(live):
            members = self._rule_nodes[rule.name]
            match entry.select:
                case "all":
                    found.update(members if among is None else _both(members, among))
                case "bound":
                    found |= members & {live.node_name}
                case "referenced":
                    found |= members & set(self.object_cache.referrers(live.key))
        return found

    def concerned(self, change: Change, among: Mapping[str, object]) -> set[str]:
        """Nodes of ``among`` that should hold it before or after; its rules count it."""
        found: set[str] = set()
        rules: list[list[str]] = [[], []]
        for side, live in enumerate((change.before, change.after)):
            if live is not None:
                found |= self.nodes_for(live, among)
                rules[side] = self._rules_of(live)
        self._matches.object_changed(*rules)
        return found

    def _rules_of(self, live: LiveObject) -> list[str]:
        self._refresh()
        if live.group_kind == EDGE_ROUTES:  # what is wanted of these is never kept with the wishes of rules
            return [rule.name for rule, entry in self._entries.get(EDGE_ROUTES, ()) if entry.covers(live)]
        return [rule.name for rule, _, _ in self._covering(live)]

    def referred_by(self, change: Change) -> Iterator[tuple[str, str]]:
        """A Pod came, went or changed: (node, key) of what is wanted there now because of it, or no longer."""
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
        """All this node should hold, by key."""
        found: dict[str, LiveObject] = {}
        if node not in self.nodes:
            return found
        for routes in self.routes.values():
            live = self.object_cache.get(_routes_key(routes.name))
            if live is not None and routes.nodes.matches(self.nodes[node]):
                found[live.key] = live
        for rule in self.rules.values():
            if node in self._rule_nodes[rule.name]:
                for index, entry in enumerate(rule.entries):
                    if not self.in_force(entry):
                        continue
                    found.update((live.key, live) for live in self._candidates(rule, index, entry, node))
        return found

    def _candidates(self, rule: sync_rule.Rule, index: int, entry: sync_rule.Entry, node: str) -> Iterable[LiveObject]:
        match entry.select:
            case "all":
                return self._covered_by(rule, index, entry).values()
            case "bound":
                return (live for live in self.object_cache.bound_to(node).values() if entry.covers(live))
            case "referenced":
                return self._referenced(entry, node)

    def _referenced(self, entry: sync_rule.Entry, node: str) -> Iterator[LiveObject]:
        for key in self.object_cache.referred_from(node):
            live = self.object_cache.get(key)
            if live is not None and live.group_kind == entry.group_kind and entry.covers(live):
                yield live

    def _covered_by(self, rule: sync_rule.Rule, index: int, entry: sync_rule.Entry) -> dict[str, LiveObject]:
        """Shared by all nodes, so that two thousand nodes coming back together do not filter the same kind each."""
        generation = self.object_cache.generation[entry.group_kind]
        known = self._covered.get((rule.name, index))
        if known is not None and known[0] == generation:
            return known[1]
        covered = {key: live for key, live in self.object_cache.of_kind(entry.group_kind).items() if entry.covers(live)}
        self._covered[(rule.name, index)] = (generation, covered)
        return covered

    def topics_of(self, node: str) -> frozenset[str]:
        """Topics named by EdgeRoutes that select this node, and the default one."""
        found = {sync_rule.DEFAULT_TOPIC}
        labels = self.nodes.get(node)
        if labels is not None:
            for routes in self.routes.values():
                if routes.nodes.matches(labels):
                    found |= routes.topics
        return frozenset(found)

    # ---- certainty -------------------------------------------------------------------------------

    def not_synced(self, node: str) -> str:
        """Why what this node should hold cannot be told yet; empty when it can."""
        for name in INPUTS:
            if name not in self.inputs_synced:
                return f"{name} are not listed yet"
        for kind in self._kinds_of(node):
            if kind not in self.synced and kind not in self.frozen and not self.is_unserved(kind):
                return f"{kind[1]} is not listed yet"
        return ""

    def is_unserved(self, kind: GroupKind) -> bool:
        """At none of the versions that rules name."""
        pairs = self.named(kind)
        return bool(pairs) and all((entry.api_version, entry.kind) in self.unserved for _, entry in pairs)

    def _kinds_of(self, node: str) -> Iterator[GroupKind]:
        self._refresh()
        for kind, entries in self._entries.items():
            matching = [entry for rule, entry in entries if node in self._rule_nodes[rule.name]]
            if matching:
                yield kind
            if any(entry.select == "referenced" for entry in matching):
                yield POD


def _routes_key(name: str) -> str:
    return f"edgeroutes.fairlead.dev//{name}"


def _both(members: frozenset[str], among: Mapping[str, object]) -> Iterator[str]:
    """What is in both, walking the shorter one."""
    if len(members) < len(among):
        return (name for name in members if name in among)
    return (name for name in among if name in members)
