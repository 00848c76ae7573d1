"""What one node's session asks of the cluster's state, always answered as it is now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from fairlead_hub.cluster import deletion_blocked
from fairlead_hub.cluster.content import GroupKind, LiveObject, ServedKind
from fairlead_hub.cluster.object_cache import ObjectCache
from fairlead_hub.cluster.placement import Desired, Placement
from fairlead_wire.objects import resource
from fairlead_wire.objects.resource import Resource

TOPICS_TOLD_MAX = 5
"""Named in one sentence."""


class ClusterView(Protocol):
    """The questions."""

    def desired(self, node: str, key: str) -> Desired | None:
        """What is wanted there under this key; None: nothing."""

    def desired_objects(self, node: str) -> dict[str, LiveObject]:
        """Everything that is wanted there, by key."""

    def deletion_blocked(self, node: str, path: str) -> str:
        """Why what the node holds as this path may not be deleted there yet; empty when it may."""

    def paused(self, key: str, uid: str) -> str:
        """Why no delete of this object is sent to any node, by its own annotation; empty when it may be."""

    def withheld(self, node: str, key: str) -> str:
        """Why what is wanted there under this key may not be sent yet; empty when it may."""

    def not_synced(self, node: str) -> str:
        """Why it is not known yet what is wanted there; empty when it is."""


def _nothing(node: str, routes: str) -> Collection[str]:
    """Nothing waits for a grant (the command line only asks)."""
    return ()


class DesiredState:
    """The answers, from what was watched.

    ``unwritten_topics`` says which topics of an EdgeRoutes object, by its name, are not written down for a node yet.
    """

    def __init__(
        self,
        object_cache: ObjectCache,
        placement: Placement,
        unwritten_topics: Callable[[str, str], Collection[str]] = _nothing,
    ) -> None:
        self.object_cache = object_cache
        self.placement = placement
        self._unwritten_topics = unwritten_topics
        self.kinds: dict[str, ServedKind] = {}
        """What discovery found, by the type part of a key."""

    def know_kind(self, kind: ServedKind) -> None:
        """Discovery found what a rule names."""
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
        """The same of what a record says that the node holds: its kind is known from the record."""
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
        some = ", ".join(unwritten[:TOPICS_TOLD_MAX]) + (", …" if len(unwritten) > TOPICS_TOLD_MAX else "")
        return f"topics it names are not written down on EdgeNode {node} yet: {some}"

    @property
    def nodes(self) -> Mapping[str, Mapping[str, str]]:
        """Labels of each edge Node."""
        return self.placement.rules.nodes

    def is_gone(self, node: str) -> bool:
        """Nodes are listed, and there is none of this name."""
        return "nodes" in self.placement.listed.inputs and node not in self.placement.rules.nodes

    def not_synced(self, node: str) -> str:
        return self.placement.listed.not_synced(node)
