"""How many objects each SyncRule selects, and which SyncRules' status has to be looked at again.

    rules, what is served ─indexed─▶ counts that no longer hold are dropped    ┐
    an object changed     ─object_changed─▶ counts of the rules that select it ├─▶ take: names whose status may differ
    nodes, lists          ─touch─▶                                             ┘

A count is made once, when it is asked for, and then follows the changes: all objects are never counted again and again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.object_cache import ObjectCache


class RuleMatches:
    """See the module; all by the rule's name."""

    def __init__(self, object_cache: ObjectCache) -> None:
        self._object_cache = object_cache
        self._in_force: dict[str, tuple[sync_rule.RuleEntry, ...]] = {}
        self._counts: dict[str, int] = {}
        self._touched: set[str] = set()

    def touch(self, names: Iterable[str]) -> None:
        """Something that their status tells may have changed."""
        self._touched.update(names)

    def take(self) -> set[str]:
        """Each rule once, however much changed since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def indexed(self, in_force: Mapping[str, Sequence[sync_rule.RuleEntry]]) -> None:
        """The entries that select something now: of every rule that has any."""
        for name in in_force.keys() | self._in_force.keys():
            entries = tuple(in_force.get(name, ()))
            if entries != self._in_force.get(name, ()):
                self._counts.pop(name, None)
                self._touched.add(name)
                self._in_force[name] = entries
                if not entries:
                    del self._in_force[name]

    def count(self, name: str) -> int:
        """Objects that entries in force cover, for whichever node; each once."""
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
        """Names of the rules that covered an object, and of those that cover it as it is now."""
        if before == after:
            return
        were, are = set(before), set(after)
        for name in were ^ are:
            self._touched.add(name)
            if name in self._counts:
                self._counts[name] += 1 if name in are else -1
