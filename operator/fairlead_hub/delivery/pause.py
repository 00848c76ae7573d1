"""Annotations on an EdgeNode with which people control the hub: pause the node, approve, compare again.

    fairlead.dev/paused: "<why>"               nothing is sent to the node while this is set
    fairlead.dev/approve-deletions: "<id>"     approves deletions stopped under this id (``deletion_guard``)
    fairlead.dev/approve-fence: "<number>"     the node may give up this fencing number and follow this hub
    fairlead.dev/resync: "<any new value>"     the node reconnects and is compared completely; once per new value

They are read before a hub that starts sends anything: nothing is sent until EdgeNodes are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairlead_hub.cluster import paused_objects
from fairlead_hub.delivery.deletion_guard import DeletionGuard, Tripped
from fairlead_hub.settings import DeletionGuardSettings as Limits
from fairlead_wire.objects.api_group import APPROVE_DELETIONS, APPROVE_FENCE, RESYNC

RESYNC_CHARS_MAX = 64
"""Limit of its value, which typically is a time."""


class NodeControls:
    """The controls of all nodes."""

    def __init__(self, limits: Limits, *, text: Callable[[float], str]) -> None:
        self.pauses: dict[str, str] = {}
        self.news: set[str] = set()
        self._limits = limits
        self._text = text
        self._guards: dict[str, DeletionGuard] = {}
        self._seen: set[str] = set()
        """Nodes whose guard was restored from an earlier hub, or had not tripped."""
        self._fences: dict[str, str] = {}
        self._resyncs: dict[str, str] = {}
        """The last value seen.  The first one requests nothing: a node that comes to a new hub is compared anyway."""

    def paused(self, node: str) -> str:
        """Why nothing is sent to the node; empty if it is not paused."""
        return self.pauses.get(node, "")

    def guard(self, node: str) -> DeletionGuard | None:
        """The node's guard; None if there is no limit (``removals_max`` is 0)."""
        if not self._limits.removals_max:
            return None
        guard = self._guards.get(node)
        if guard is None:
            guard = self._guards[node] = DeletionGuard(node, self._limits, news=self.news, text=self._text)
        return guard

    def take_news(self) -> set[str]:
        """Nodes whose deletion guard changed since the last call."""
        news = self.news.copy()
        self.news.clear()
        return news

    def tripped(self) -> int:
        """Number of nodes whose removals are stopped."""
        return sum(guard.stops for guard in self._guards.values())

    def observed(self, node: str, annotations: Mapping[str, str], status: Mapping[str, Any]) -> bool:
        """An EdgeNode as it is in the API.  Returns True if what may be sent to the node has changed."""
        self._restore(node, status)
        self._fences.pop(node, None)
        if fence := annotations.get(APPROVE_FENCE):
            self._fences[node] = fence
        approved = self._is_approved(node, annotations.get(APPROVE_DELETIONS, ""))
        return self._set_pause(node, paused_objects.reason(annotations)) or approved

    def is_fence_approved(self, node: str, fence: int) -> bool:
        """Whether the node may give up this number immediately."""
        return self._fences.get(node) == str(fence)

    def is_resync_asked(self, node: str, annotations: Mapping[str, str]) -> bool:
        """Whether the value is new.  Call this for each EdgeNode as it is in the API."""
        asked = annotations.get(RESYNC, "")[:RESYNC_CHARS_MAX]
        before = self._resyncs.get(node)
        self._resyncs[node] = asked
        return before is not None and asked not in ("", before)

    def vanished(self, node: str) -> bool:
        """Its EdgeNode was deleted, and the annotations with it.  The guard stays as it is."""
        self._fences.pop(node, None)
        self._resyncs.pop(node, None)
        return self._set_pause(node, "")

    def forget(self, node: str) -> None:
        """The Node is gone.  A pause ends with the EdgeNode, which may outlive the Node for a moment."""
        self._guards.pop(node, None)
        self._seen.discard(node)
        self._resyncs.pop(node, None)

    def _set_pause(self, node: str, why: str) -> bool:
        before = self.pauses.pop(node, "")
        if why:
            self.pauses[node] = why
        return before != why

    def _is_approved(self, node: str, id: str) -> bool:
        guard = self._guards.get(node)
        return guard is not None and guard.approve(id)

    def _restore(self, node: str, status: Mapping[str, Any]) -> None:
        """The first time a node is seen, restore the guard of an earlier hub.

        After that our own state is more current.
        """
        if node in self._seen:
            return
        self._seen.add(node)
        said = status.get("deletionGuard")
        guard = self.guard(node)
        if guard is None or guard.tripped is not None or not isinstance(said, dict) or not said.get("id"):
            return
        count = said.get("count")
        guard.tripped = Tripped(
            id=str(said["id"]), count=count if isinstance(count, int) else 0, since=str(said.get("since", ""))
        )
        self.news.add(node)
