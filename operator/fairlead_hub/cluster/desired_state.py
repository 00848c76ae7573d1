"""The questions a node's session asks about the cluster, always answered from the current state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from fairlead_hub.cluster import deletion_blocked
from fairlead_hub.cluster.content import GroupKind, LiveObject, ServedKind
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import Desired, Placement
from fairlead_wire.objects import resource
from fairlead_wire.objects.resource import Resource

TOPICS_LISTED_MAX = 5
"""Topics named in one message."""


class ClusterView(Protocol):
    """The cluster as one session sees it."""

    def desired(self, node: str, key: str) -> Desired | None:
        """What the node should hold under this key; None if nothing."""

    def desired_objects(self, node: str) -> dict[str, LiveObject]:
        """Everything the node should hold, by key."""

    def deletion_blocked(self, node: str, path: str) -> str:
        """Why the node must not delete what it holds under this path yet; empty if it may."""

    def paused(self, key: str, uid: str) -> str:
        """Why deletes of this object are paused by its annotation; empty if they are not."""

    def withheld(self, node: str, key: str) -> str:
        """Why the wanted object under this key may not be sent to the node yet; empty if it may."""

    def not_synced(self, node: str) -> str:
        """Why it is not known yet what the node should hold; empty if it is known."""


def _none_unwritten(node: str, routes: str) -> Collection[str]:
    """No grant is ever missing (for the command line, which only reads)."""
    return ()


class DesiredState:
    """Answers from the watched state.

    ``unwritten_topics`` returns the topics of an EdgeRoutes object, given by name, that a node's EdgeNode does not list
    yet.
    """

    def __init__(
        self,
        object_cache: ObjectCache,
        placement: Placement,
        unwritten_topics: Callable[[str, str], Collection[str]] = _none_unwritten,
    ) -> None:
        self.object_cache = object_cache
        self.placement = placement
        self._unwritten_topics = unwritten_topics
        self.kinds: dict[str, ServedKind] = {}
        """The kinds that discovery found, by the type part of a key."""

    def know_kind(self, kind: ServedKind) -> None:
        """Add a kind that discovery found."""
        self.kinds[f"{kind.plural}.{kind.group}" if kind.group else kind.plural] = kind

    def desired(self, node: str, key: str) -> Desired | None:
        live = self.object_cache.get(key)
        return None if live is None else self.placement.desired(node, live)

    def live(self, node: str, key: str) -> LiveObject | None:
        """The object, if the node should hold it."""
        desired = self.desired(node, key)
        return None if desired is None else desired.live

    def desired_objects(self, node: str) -> dict[str, LiveObject]:
        return self.placement.desired_objects(node)

    def deletion_blocked(self, node: str, path: str) -> str:
        at = resource.parse(path)
        known = self.kinds.get(at.type)
        kind = known.group_kind if known is not None else None
        return deletion_blocked.blocked(self.placement, node, at, kind, self.object_cache.get(at.key))

    def record_deletion_blocked(self, node: str, at: Resource, kind: GroupKind) -> str:
        """Like ``deletion_blocked``, for an object that a record names: the record knows its kind."""
        return deletion_blocked.blocked(self.placement, node, at, kind, self.object_cache.get(at.key))

    def paused(self, key: str, uid: str) -> str:
        live = self.object_cache.get(key)
        return live.paused if live is not None and live.uid == uid else ""

    def withheld(self, node: str, key: str) -> str:
        type, _, name = key.split("/", 2)
        if type != deletion_blocked.EDGE_ROUTES_TYPE:
            return ""
        unwritten = sorted(self._unwritten_topics(node, name))
        if not unwritten:
            return ""
        some = ", ".join(unwritten[:TOPICS_LISTED_MAX]) + (", …" if len(unwritten) > TOPICS_LISTED_MAX else "")
        return f"topics it names are not in EdgeNode {node} yet: {some}"

    @property
    def nodes(self) -> Mapping[str, Mapping[str, str]]:
        """Labels of each edge Node."""
        return self.placement.rules.nodes

    def is_gone(self, node: str) -> bool:
        """Whether Nodes are listed and none has this name."""
        return "nodes" in self.placement.listed.inputs and node not in self.placement.rules.nodes

    def not_synced(self, node: str) -> str:
        return self.placement.listed.not_synced(node)
