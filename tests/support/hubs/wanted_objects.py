"""Stands in for the desired state of one node, for tests of sessions and keys without a core."""

from __future__ import annotations

from typing import Any

from tests.support.hubs.live import CONFIG_MAP, live

from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.cluster.placement import Desired
from fairlead_hub.settings import NodeDelivery

POLICY = NodeDelivery(backoff_retries=2, minimum_delay=1, maximum_delay=2, ack_timeout=5)


class WantedObjects:
    """``blocked``, ``ungranted`` and ``unlisted`` are the reasons that the desired state would return."""

    def __init__(self) -> None:
        self.objects: dict[str, LiveObject] = {}
        self.blocked = self.ungranted = self.unlisted = ""
        self.priorities: dict[str, int] = {}

    def put(self, name: str = "a", **fields: Any) -> LiveObject:
        one = live(CONFIG_MAP, name, **fields)
        self.objects[one.key] = one
        return one

    def desired(self, node: str, key: str) -> Desired | None:
        one = self.objects.get(key)
        return Desired(live=one, priority=self.priorities.get(key, 5), delivery=POLICY) if one else None

    def desired_objects(self, node: str) -> dict[str, LiveObject]:
        return dict(self.objects)

    def deletion_blocked(self, node: str, path: str) -> str:
        return self.blocked

    def paused(self, key: str, uid: str) -> str:
        return ""

    def withheld(self, node: str, key: str) -> str:
        return self.ungranted

    def not_synced(self, node: str) -> str:
        return self.unlisted
