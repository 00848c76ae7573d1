"""Which topics a node may name: those of the EdgeRoutes that select it, and those that ever did.

A topic once granted stays granted, also over a restart (``EdgeNode`` remembers): what was routed before a change of
routes must not be refused after it (contract section 8).  So a topic is written down before the node may hear of it:
EdgeRoutes wait for ``EdgeNode`` to name their topics (``unwritten``).  Fairlead's own topics are never granted,
whichever EdgeRoutes name them.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.placement import Placement
from fairlead_wire import event

_ALWAYS = frozenset((sync_rule.DEFAULT_TOPIC,))


class TopicGrants:
    """``ever``: by node."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self.ever: dict[str, frozenset[str]] = {}
        self._written: dict[str, frozenset[str]] = {}
        """By node: the topics its EdgeNode names as it stands in the API."""

    def unwritten(self, node: str, routes: str) -> frozenset[str]:
        """Topics of an EdgeRoutes object, by its name, that this node would not be granted after a restart."""
        found = self._placement.rules.routes.get(routes)
        if found is None or found.topics == _ALWAYS:
            return frozenset()
        return found.topics - _ALWAYS - self._written.get(node, frozenset())

    def written(self, node: str, topics: frozenset[str]) -> None:
        """The node's EdgeNode stands in the API and names these topics; none when there is no EdgeNode."""
        if topics:
            self._written[node] = topics
        else:
            self._written.pop(node, None)

    def widen(self, node: str) -> bool:
        """Its EdgeRoutes may have changed.  True: it may name more than before."""
        return self.remember(node, self._placement.rules.topics_of(node))

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
        self._written.pop(node, None)

    def of(self, node: str) -> frozenset[str]:
        return self.ever.get(node, frozenset((sync_rule.DEFAULT_TOPIC,)))

    def topics(self) -> frozenset[str]:
        """Every topic EdgeRoutes name; they are created before anything is published."""
        found = {sync_rule.DEFAULT_TOPIC}
        for routes in self._placement.rules.routes.values():
            found |= routes.topics
        return frozenset(topic for topic in found if not event.is_reserved(topic))
