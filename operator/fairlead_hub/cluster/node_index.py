"""Labels of all edge Nodes, and which of them a selector matches, without a look at each.

A rule that selects by a label costs as much as the nodes that have it.  Values are indexed for the keys that selectors
name, from the first that does: labels that no rule asks for cost nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairlead_hub.cluster.selector import EVERYTHING, Selector


class NodeIndex:
    """See the module.  ``labels``: by the node's name."""

    def __init__(self) -> None:
        self.labels: dict[str, Mapping[str, str]] = {}
        self._by_key: dict[str, dict[str, set[str]]] = {}
        """Label key → value → nodes that have it."""

    def put(self, name: str, labels: Mapping[str, str]) -> None:
        """It exists, with these labels."""
        self._unindex(name)
        self.labels[name] = labels
        for key, nodes in self._by_key.items():
            if key in labels:
                nodes.setdefault(labels[key], set()).add(name)

    def drop(self, name: str) -> bool:
        """False: it was not there."""
        self._unindex(name)
        return self.labels.pop(name, None) is not None

    def matching(self, selector: Selector) -> frozenset[str]:
        """Every node that this selects."""
        if selector == EVERYTHING:
            return frozenset(self.labels)
        labels = self.labels
        return frozenset(name for name in self._candidates(selector) if selector.matches(labels[name]))

    def _candidates(self, selector: Selector) -> Iterable[str]:
        """All that can match: those with one of the values that some key must have, if there is such a key."""
        needed = selector.needed()
        if needed is None:
            return self.labels
        key, values = needed
        found = self._nodes_by_value(key)
        return [name for value in values for name in found.get(value, ())]

    def _nodes_by_value(self, key: str) -> dict[str, set[str]]:
        known = self._by_key.get(key)
        if known is None:
            known = self._by_key[key] = {}
            for name, labels in self.labels.items():
                if key in labels:
                    known.setdefault(labels[key], set()).add(name)
        return known

    def _unindex(self, name: str) -> None:
        before = self.labels.get(name, {})
        for key, nodes in self._by_key.items():
            value = before.get(key)
            if value is not None and value in nodes:
                nodes[value].discard(name)
                if not nodes[value]:
                    del nodes[value]
