"""Which topics a node may name: those of the EdgeRoutes that select it, and those that ever did.

A topic once granted stays granted, also over a restart (``EdgeNode`` remembers): what was routed before a change of
routes must not be refused after it (contract section 8).  Fairlead's own topics are never granted, whoever names them.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead_hub import rules
from fairlead_hub.placement import Placement
from fairlead_wire import event


class Grants:
    """``ever``: by node."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self.ever: dict[str, frozenset[str]] = {}

    def widen(self, node: str) -> bool:
        """Its EdgeRoutes may have changed.  True: it may name more than before."""
        return self.remember(node, self._placement.topics_of(node))

    def remember(self, node: str, topics: Iterable[str]) -> bool:
        """These were granted in an earlier life.  True: that was news."""
        known = self.ever.get(node, frozenset())
        wider = known.union(topic for topic in topics if not event.is_reserved(topic))
        if wider == known:
            return False
        self.ever[node] = wider
        return True

    def forget(self, node: str) -> None:
        """The Node is gone."""
        self.ever.pop(node, None)

    def of(self, node: str) -> frozenset[str]:
        return self.ever.get(node, frozenset((rules.DEFAULT_TOPIC,)))

    def topics(self) -> frozenset[str]:
        """Every topic EdgeRoutes name; they are created before anything is published."""
        found = {rules.DEFAULT_TOPIC}
        for routes in self._placement.routes.values():
            found |= routes.topics
        return frozenset(topic for topic in found if not event.is_reserved(topic))
