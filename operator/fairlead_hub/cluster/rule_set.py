"""SyncRules and EdgeRoutes, edge Nodes, which nodes each rule selects, and how many objects.

    rules × node labels ──members──▶ nodes of each rule
    rules × served versions ──in force──▶ the entries that select something
    a rule that cannot be read ──broken, reaches──▶ what it may have selected

A mistake in one rule affects only that rule.  An unreadable rule stays in force in its last readable form.  An entry
that names a version that is not served selects nothing while another version of the kind is served.

``RuleMatches`` counts the objects each SyncRule selects.  A count is computed when it is first needed and then kept up
to date:

    rules, served kinds ─indexed─▶ counts that no longer hold are dropped      ┐
    an object changed   ─object_changed─▶ counts of the rules that select it   ├─▶ take: names whose status may differ
    nodes, lists        ─touch─▶                                               ┘
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.content import POD, GroupKind, LiveObject
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.selector import NodeIndex


class RuleMatches:
    """See the module docstring.  Everything is indexed by the rule's name."""

    def __init__(self, object_cache: ObjectCache) -> None:
        self._object_cache = object_cache
        self._in_force: dict[str, tuple[sync_rule.RuleEntry, ...]] = {}
        self._counts: dict[str, int] = {}
        self._touched: set[str] = set()

    def touch(self, names: Iterable[str]) -> None:
        """Mark rules whose status may have changed."""
        self._touched.update(names)

    def take(self) -> set[str]:
        """Names of the rules marked since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def indexed(self, in_force: Mapping[str, Sequence[sync_rule.RuleEntry]]) -> None:
        """The entries that select something now, for every rule that has any."""
        for name in in_force.keys() | self._in_force.keys():
            entries = tuple(in_force.get(name, ()))
            if entries != self._in_force.get(name, ()):
                self._counts.pop(name, None)
                self._touched.add(name)
                self._in_force[name] = entries
                if not entries:
                    del self._in_force[name]

    def count(self, name: str) -> int:
        """Number of distinct objects covered by the rule's entries in force, on any node."""
        known = self._counts.get(name)
        if known is None:
            known = self._counts[name] = self._counted(self._in_force.get(name, ()))
        return known

    def _counted(self, entries: Iterable[sync_rule.RuleEntry]) -> int:
        by_kind = defaultdict(list)
        for entry in entries:
            by_kind[entry.group_kind].append(entry)
        return sum(
            any(entry.covers(live) for entry in of_kind)
            for kind, of_kind in by_kind.items()
            for live in self._object_cache.of_kind(kind).values()
        )

    def object_changed(self, before: Sequence[str], after: Sequence[str]) -> None:
        """Update counts: names of the rules that covered the object before, and of those that cover it now."""
        if before == after:
            return
        were, are = set(before), set(after)
        for name in were ^ are:
            self._touched.add(name)
            if name in self._counts:
                self._counts[name] += 1 if name in are else -1


GONE_MAX = 100_000
"""Deleted objects whose labels are remembered.  Beyond this limit labels count as unknown, and nodes keep the
objects."""


class RuleSet:
    """See the module."""

    def __init__(self, matches: RuleMatches) -> None:
        self._index = NodeIndex()
        self.nodes: Mapping[str, Mapping[str, str]] = self._index.labels
        """Labels of every edge Node, by name."""
        self.readable: dict[str, sync_rule.Rule] = {}
        """The last readable form of each SyncRule that is, or once was, readable."""
        self.routes: dict[str, sync_rule.Routes] = {}
        """The readable EdgeRoutes."""
        self.broken: dict[str, str] = {}
        """``syncrules/name`` or ``edgeroutes/name`` → why it cannot be read."""
        self.reaches: dict[str, sync_rule.Rule] = {}
        """By name of an unreadable SyncRule: what it may have selected beyond its last readable form."""
        self.gone: dict[str, Mapping[str, str]] = {}
        """Labels of objects deleted while a rule was unreadable, by key."""
        self.members: dict[str, frozenset[str]] = {}
        """The nodes that each readable SyncRule selects."""
        self.generation = 0
        """Counts changes of rules and of served versions.  Caches derived from them compare this number."""
        self._matches = matches
        self._unserved: dict[tuple[str, str], str] = {}
        self._served: set[tuple[str, str]] = set()
        self._stale = False
        self._kinds_served: set[GroupKind] = set()
        self._named: dict[GroupKind, list[tuple[sync_rule.Rule, sync_rule.RuleEntry]]] = {}
        """Every entry by kind, including those that name a version that is not served."""
        self._entries: dict[GroupKind, list[tuple[sync_rule.Rule, sync_rule.RuleEntry]]] = {}

    # ---- nodes -----------------------------------------------------------------------------------

    def set_node(self, name: str, labels: Mapping[str, str]) -> bool:
        """Returns False if nothing changed (a heartbeat)."""
        if self.nodes.get(name) == labels:
            return False
        self._index.put(name, labels)
        for rule in self.readable.values():
            members = self.members[rule.name]
            if rule.nodes.matches(labels) != (name in members):
                self.members[rule.name] = members ^ {name}
                self._matches.touch((rule.name,))
        return True

    def drop_node(self, name: str) -> bool:
        if not self._index.drop(name):
            return False
        for rule_name, members in self.members.items():
            if name in members:
                self.members[rule_name] = members - {name}
                self._matches.touch((rule_name,))
        return True

    # ---- SyncRules -------------------------------------------------------------------------------

    def set_rule(self, rule: sync_rule.Rule) -> frozenset[str]:
        """Add or replace a rule.  Returns the nodes it concerns, before or after."""
        before = self.unreadable_at(rule.name) | self.members_of(rule.name)
        self._matches.touch((rule.name,))
        self.broken.pop(f"syncrules/{rule.name}", None)
        self.reaches.pop(rule.name, None)
        self.readable[rule.name] = rule
        self.members[rule.name] = self._index.matching(rule.nodes)
        self._changed()
        return before | self.members[rule.name]

    def drop_rule(self, name: str) -> frozenset[str]:
        """Remove a rule.  Returns the nodes it concerned."""
        before = self.unreadable_at(name)
        self._matches.touch((name,))
        self.broken.pop(f"syncrules/{name}", None)
        self.reaches.pop(name, None)
        if self.readable.pop(name, None) is None:
            return before
        self._changed()
        return before | self.members.pop(name)

    def break_rule(self, found: sync_rule.BrokenRule) -> frozenset[str]:
        """The rule became unreadable: its last readable form stays in force.  Returns the nodes it concerns."""
        known = self.readable.get(found.name)
        before: frozenset[str] = frozenset()
        if known is not None and known.uid != found.uid:
            before = self.drop_rule(found.name)  # the previous rule is gone, this one only has its name
            known = None
        if known is None and found.last is not None:
            before |= self.set_rule(found.last)
        self._matches.touch((found.name,))
        self.broken[f"syncrules/{found.name}"] = found.reason
        if found.reach is not None and known is None:  # the form in force here is known
            self.reaches[found.name] = found.reach
        return before | self.unreadable_at(found.name)

    def rule_names(self) -> set[str]:
        """Names of all SyncRules, readable or not."""
        return {*self.readable, *self.broken_names("syncrules")}

    def members_of(self, name: str) -> frozenset[str]:
        """Nodes that a SyncRule selects; empty if there is no such rule."""
        return self.members.get(name, frozenset())

    # ---- EdgeRoutes ------------------------------------------------------------------------------

    def set_routes(self, routes: sync_rule.Routes) -> None:
        """The EdgeRoutes object is readable: its nodes and its topics are known."""
        self.routes[routes.name] = routes
        self.broken.pop(f"edgeroutes/{routes.name}", None)

    def break_routes(self, name: str, reason: str) -> None:
        """The EdgeRoutes object is unreadable: its nodes are unknown, so it is sent to none."""
        self.routes.pop(name, None)
        self.broken[f"edgeroutes/{name}"] = reason

    def drop_routes(self, name: str) -> None:
        self.routes.pop(name, None)
        self.broken.pop(f"edgeroutes/{name}", None)

    def topics_of(self, node: str) -> frozenset[str]:
        """Topics named by EdgeRoutes that select this node, and the default topic."""
        found = {sync_rule.DEFAULT_TOPIC}
        labels = self.nodes.get(node)
        if labels is not None:
            for routes in self.routes.values():
                if routes.nodes.matches(labels):
                    found |= routes.topics
        return frozenset(found)

    # ---- what cannot be read ---------------------------------------------------------------------

    def broken_names(self, collection: str) -> list[str]:
        """Sorted names of the unreadable ``syncrules`` or ``edgeroutes``."""
        return sorted(key.partition("/")[2] for key in self.broken if key.startswith(f"{collection}/"))

    def unreadable_at(self, name: str) -> frozenset[str]:
        """Nodes that an unreadable SyncRule concerns, as far as known."""
        if f"syncrules/{name}" not in self.broken:
            return frozenset()
        reach = self.reaches.get(name)
        found = self.members_of(name)
        if reach is not None:
            found |= self._index.matching(reach.nodes)
        return found

    def unreadable_for(self, node: str) -> list[str]:
        """Sorted names of unreadable SyncRules that concern this node."""
        return [name for name in self.broken_names("syncrules") if self.concerns(name, node)] if self.broken else []

    def concerns(self, name: str, node: str) -> bool:
        """Whether a rule selects this node, or may have selected it."""
        reach, labels = self.reaches.get(name), self.nodes.get(node)
        may_have = reach is not None and labels is not None and reach.nodes.matches(labels)
        return may_have or node in self.members_of(name)

    def forget(self, gone: LiveObject) -> None:
        """The object was deleted.  Its labels are kept: they tell whether an unreadable rule selected it."""
        if self.broken:
            self.gone[gone.key] = gone.labels
            if len(self.gone) > GONE_MAX:
                del self.gone[next(iter(self.gone))]
        elif self.gone:
            self.gone.clear()

    # ---- what is served --------------------------------------------------------------------------

    def set_served(self, kind: GroupKind, answers: Mapping[str, str]) -> frozenset[str]:
        """What the API server answered for the apiVersions of a kind: "" if it serves one, otherwise why not.

        Returns the nodes that a difference concerns.
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
        self._changed()
        self.touch(kind)
        return frozenset().union(*(self.members[rule.name] for rule, _ in self.named(kind)))

    def _answer(self, version_kind: tuple[str, str]) -> str | None:
        return "" if version_kind in self._served else self._unserved.get(version_kind)

    def _is_served(self, entry: sync_rule.RuleEntry) -> bool:
        return (entry.api_version, entry.kind) in self._served

    @property
    def unserved(self) -> Mapping[tuple[str, str], str]:
        """(apiVersion, kind) pairs that rules name and the API server does not serve → its answer."""
        self._refresh()
        return self._unserved

    def is_unserved(self, kind: GroupKind) -> bool:
        """Whether none of the versions that rules name is served."""
        pairs = self.named(kind)
        return bool(pairs) and all((entry.api_version, entry.kind) in self._unserved for _, entry in pairs)

    # ---- entries ---------------------------------------------------------------------------------

    def _changed(self) -> None:
        """The next question makes the index anew: a list brings thousands of rules one by one."""
        self._stale = True
        self.generation += 1

    def _refresh(self) -> None:
        if not self._stale:
            return
        self._stale = False
        named: dict[GroupKind, list[tuple[sync_rule.Rule, sync_rule.RuleEntry]]] = defaultdict(list)
        # Sorted by name, so that precedence between two rules does not depend on which was created first.
        for name in sorted(self.readable):
            for entry in self.readable[name].entries:
                named[entry.group_kind].append((self.readable[name], entry))
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
        by_rule: dict[str, list[sync_rule.RuleEntry]] = defaultdict(list)
        for pairs in self._entries.values():
            for rule, entry in pairs:
                by_rule[rule.name].append(entry)
        self._matches.indexed(by_rule)

    def entries(self, kind: GroupKind) -> Sequence[tuple[sync_rule.Rule, sync_rule.RuleEntry]]:
        """Entries in force for this kind, by rule name."""
        self._refresh()
        return self._entries.get(kind, ())

    def named(self, kind: GroupKind) -> list[tuple[sync_rule.Rule, sync_rule.RuleEntry]]:
        """Entries that name this kind, by rule name, in force or not."""
        self._refresh()
        return self._named.get(kind, [])

    def in_force(self, entry: sync_rule.RuleEntry) -> bool:
        """Whether the entry selects anything.

        Not if its version is not served; nor while that is unknown and another version is served.
        """
        self._refresh()
        if self._is_served(entry):
            return True
        return (entry.api_version, entry.kind) not in self._unserved and entry.group_kind not in self._kinds_served

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

    def kinds_of(self, node: str) -> Iterator[GroupKind]:
        """Kinds that entries in force select for this node, and Pods where something is ``referenced``."""
        self._refresh()
        for kind, entries in self._entries.items():
            matching = [entry for rule, entry in entries if node in self.members[rule.name]]
            if matching:
                yield kind
            if any(entry.select == "referenced" for entry in matching):
                yield POD

    # ---- what the status of rules says -----------------------------------------------------------

    @property
    def matches(self) -> RuleMatches:
        """The objects each rule selects, and the rules whose status may have changed."""
        self._refresh()
        return self._matches

    def touch(self, kind: GroupKind) -> None:
        """Whether this kind can be listed has changed, so the status of the rules that name it may change."""
        self._matches.touch(rule.name for rule, _ in self.named(kind))
