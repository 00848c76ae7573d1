"""ObjectSyncs and EdgeNodes as the API has them, and the outcome of our own writes.

observed, vanished, named ─▶ StatusCache: an echo of ours, or news ─▶ SyncController, EdgeNodeChanges
answered, unwritten       ─▶ StatusCache: done, or wanted still
"""

from __future__ import annotations

from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.core.edge_node_changes import EdgeNodeChanges
from fairlead_hub.counts import Counts
from fairlead_hub.status import status_cache
from fairlead_hub.status.sync_controller import SyncController


class DocumentChanges:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    def __init__(
        self,
        cache: status_cache.StatusCache,
        sync_controller: SyncController,
        edge_nodes: EdgeNodeChanges,
        counts: Counts,
    ) -> None:
        self._cache = cache
        self._sync_controller = sync_controller
        self._edge_nodes = edge_nodes
        self._counts = counts

    def take(self, now: float) -> list[status_cache.StatusWrite]:
        """What is to be written now."""
        writes = self._cache.take(now)
        self._counts.wrote_over_absurd(sum(write.is_over_absurd(self._cache.fence) for write in writes))
        return writes

    # ---- what the watches say --------------------------------------------------------------------

    def observed(self, name: status_cache.Name, node: str, observed: status_cache.Observed) -> None:
        """An ObjectSync as it stands; one that others changed is set right with the next heartbeat."""
        if self._cache.observe(name, node, observed) and name[0] in self._cache.synced:
            self._sync_controller.edited(name, node)

    def vanished(self, name: status_cache.Name, node: str, version: str) -> None:
        """An ObjectSync was deleted: it is written again if it still says something true."""
        if self._cache.vanished(name, node, version):
            self._sync_controller.vanished(node)

    def named(self, collection: str, names: set[str], version: str, now: float) -> None:
        """A list of this version names these (``namespace/name``): other documents of ours were gone by then."""
        for name in self._cache.missing(collection, names, version):
            if collection == EDGE_NODES:
                self._edge_nodes.vanished(name[2], now)
            else:
                spec = self._cache.observed[name].head["spec"]
                self.vanished(name, str(spec.get("nodeName", "")), "")

    def listed(self, collection: str, now: float) -> None:
        """The first list of our own documents is in: what was decided without them is decided again."""
        self._cache.listed(collection)
        self._counts.collected(self._sync_controller.collect())
        self._sync_controller.compare_all(now)

    # ---- what became of writes -------------------------------------------------------------------

    def answered(
        self,
        wanted: status_cache.Wanted,
        answer: status_cache.WriteOutcome,
        there: status_cache.Observed | None,
        now: float,
        *,
        reason: str,
    ) -> bool:
        """True: its refusal is worth a line in the log."""
        self._counts.wrote(answer.value)
        is_news = self._cache.answered(wanted, answer, there, now, reason=reason)
        if wanted.name[0] == EDGE_NODES:
            self._edge_nodes.answered(wanted, answer, there, now)
        return is_news
