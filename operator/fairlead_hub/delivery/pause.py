"""What people want of the hub for one node, by annotations on its EdgeNode: pause it, approve, compare again.

    fairlead.dev/paused: "<why>"                nothing is sent to that node while it stands there
    fairlead.dev/approve-deletions: "<id>"      deletions stopped under this id may go (``deletion_guard``)
    fairlead.dev/approve-fence: "<number>"      the node may give up this fencing number, and follow this hub
    fairlead.dev/resync: "<anything new>"       the node comes again and is compared whole; once for each new value

They are read before the first send of a hub that starts: nothing is sent until EdgeNodes are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairlead_hub.cluster import paused_objects
from fairlead_hub.delivery.deletion_guard import DeletionGuard, Tripped
from fairlead_hub.settings import DeletionGuardSettings as Limits
from fairlead_wire.objects.api_group import APPROVE_DELETIONS, APPROVE_FENCE, RESYNC

RESYNC_CHARS_MAX = 64
"""Of its value: a time will do."""


class NodeControls:
    """Of all nodes."""

    def __init__(self, limits: Limits, *, text: Callable[[float], str]) -> None:
        self.pauses: dict[str, str] = {}
        self.news: set[str] = set()
        self._limits = limits
        self._text = text
        self._guards: dict[str, DeletionGuard] = {}
        self._seen: set[str] = set()
        """Nodes whose guard of an earlier life was taken over, or had not tripped."""
        self._fences: dict[str, str] = {}
        self._resyncs: dict[str, str] = {}
        """The value seen last; the first one asks for nothing: a node that comes to a new hub is compared anyway."""

    def paused(self, node: str) -> str:
        """Why nothing is sent there; empty when it may be."""
        return self.pauses.get(node, "")

    def guard(self, node: str) -> DeletionGuard | None:
        """None: there is no limit here (``removals_max`` is 0)."""
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
        """How many nodes' removals are stopped."""
        return sum(guard.stops for guard in self._guards.values())

    def observed(self, node: str, annotations: Mapping[str, str], status: Mapping[str, Any]) -> bool:
        """An EdgeNode as it stands.  True: what may be sent to that node has changed."""
        self._restore(node, status)
        self._fences.pop(node, None)
        if fence := annotations.get(APPROVE_FENCE):
            self._fences[node] = fence
        approved = self._is_approved(node, annotations.get(APPROVE_DELETIONS, ""))
        return self._set_pause(node, paused_objects.reason(annotations)) or approved

    def is_fence_approved(self, node: str, fence: int) -> bool:
        """May the node give up this number at once?"""
        return self._fences.get(node) == str(fence)

    def is_resync_asked(self, node: str, annotations: Mapping[str, str]) -> bool:
        """Is there a value that was not there before?  Asked for each EdgeNode as it stands."""
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
        """The Node is gone.  A pause ends with its EdgeNode, which may outlive the Node for a moment."""
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
        """The first time a node is seen: the guard of an earlier hub.  Later we know better than the document."""
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
