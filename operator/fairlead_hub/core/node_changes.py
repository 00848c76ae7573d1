"""Edge Nodes as the cluster has them: a new one, another label, deleted."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead_hub.cluster.rule_set import RuleSet
from fairlead_hub.core.node_terms import NodeTerms
from fairlead_hub.core.session_lifecycle import SessionLifecycle
from fairlead_hub.counts import Counts
from fairlead_hub.delivery.opening import admission
from fairlead_hub.status.sync_controller import SyncController


class NodeChanges:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    def __init__(
        self,
        rules: RuleSet,
        lifecycle: SessionLifecycle,
        terms: NodeTerms,
        sync_controller: SyncController,
        counts: Counts,
    ) -> None:
        self._rules = rules
        self._lifecycle = lifecycle
        self._terms = terms
        self._sync_controller = sync_controller
        self._counts = counts

    def set_node(self, name: str, uid: str, labels: Mapping[str, str], now: float) -> bool:
        """A new UID is a new node: what stands for the old one goes.  True: it may have to hold something else."""
        status = self._terms.node_status
        known = status.node_uids.get(name)
        if known is not None and known != uid:
            self.drop_node(name, now)
        status.set_uid(name, uid)
        if not self._rules.set_node(name, labels):
            return False
        status.relabelled(name)
        return True

    def drop_node(self, name: str, now: float) -> None:
        """It was deleted, or is no edge any more."""
        self._rules.drop_node(name)
        reason = f"Node {name} was deleted or is no edge node"
        self._lifecycle.refuse_node(name, "node_deleted", reason, admission.NODE_GONE_RETRY_SECONDS, now)
        self._terms.drop(name)
        self._counts.collected(self._sync_controller.forget_node(name))
        self._terms.node_status.forget(name, self._terms.of(name), now)
