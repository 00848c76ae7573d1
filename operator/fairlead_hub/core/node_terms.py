"""What each node is allowed to do: open a session with its certificate, receive and lose objects, name topics.

    certificates ─▶ Identities ┐
    annotations ──▶ NodeControls ├─of(node)─▶ Terms ─▶ EdgeNode status
    EdgeRoutes ───▶ Grants     ┘

EdgeNodes store all of this, and the next hub reads it from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.delivery.identities import Identities, NodeCertificate
from fairlead_hub.delivery.pause import NodeControls
from fairlead_hub.identity import revocation
from fairlead_hub.identity.revocation import KnownIdentity
from fairlead_hub.publish_batch import TopicGrants
from fairlead_hub.status import edge_node, status_cache
from fairlead_hub.status.node_status import NodeStatus
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import message

STARTING_RETRY_SECONDS = 1.0


class NodeTerms:
    """See the module docstring."""

    JUDGED_BY: Final = frozenset({"nodes", EDGE_NODES})
    """What must be listed before a certificate can be judged."""

    def __init__(
        self, identities: Identities, controls: NodeControls, grants: TopicGrants, node_status: NodeStatus
    ) -> None:
        self.identities = identities
        self.controls = controls
        self.grants = grants
        self.node_status = node_status

    @property
    def judges_certificates(self) -> bool:
        """Whether it is known which certificates are held and revoked."""
        return not self._unlisted

    @property
    def _unlisted(self) -> frozenset[str]:
        return self.JUDGED_BY - self.node_status.placement.listed.inputs

    @property
    def nodes(self) -> Mapping[str, Mapping[str, str]]:
        """The edge Nodes with their labels."""
        return self.node_status.placement.rules.nodes

    def of(self, node: str) -> edge_node.Terms:
        return edge_node.Terms(
            granted_topics=self.grants.ever.get(node, frozenset()),
            paused=self.controls.paused(node),
            guard=self.controls.guard(node),
            identity=self.identities.status(node),
            revoked=self.identities.revoked.get(node),
        )

    def grant(self, node: str) -> None:
        """Its EdgeRoutes may have named more topics."""
        if self.grants.widen(node):
            self.node_status.changed(node)

    def refusal(self, node: str, shown: NodeCertificate | None) -> message.Refuse | None:
        """Why no session with this certificate may be open; None if one may.

        ``shown`` is None without certificates (``insecure``); then nothing is revoked.  Until EdgeNodes are listed it
        is not known what was revoked.
        """
        if shown is None:
            return None
        if missing := sorted(self._unlisted):
            reason = f"the hub has just started and has not listed {' and '.join(missing)} yet"
            return message.Refuse(code="starting", reason=reason, retry_after=STARTING_RETRY_SECONDS)
        if why := self.identities.revoked_why(node, shown.issued):
            self.node_status.refused(node)
            return message.Refuse(code="revoked", reason=why, retry_after=revocation.RETRY_SECONDS)
        return None

    def refused_identity(self, node: str, shown: NodeCertificate | None) -> str:
        """Why this certificate is not accepted for this Node; empty if it is, or cannot be judged yet."""
        if self._unlisted:
            return ""
        why = self.identities.judge(node, self.node_status.node_uids.get(node, ""), shown)
        if why:
            self.node_status.refused(node)
        return why

    def known_identity(self, node: str) -> KnownIdentity:
        """What is known of a name that a device requests when joining."""
        for name in ("nodes", EDGE_NODES):
            if name in self._unlisted:
                return KnownIdentity(unknown=f"the hub has not read its {name} yet")
        bound, revoked = self.identities.bound(node), self.identities.revoked.get(node)
        uid = self.node_status.node_uids.get(node, "")
        before = WallClock.moment(revoked.before) if revoked is not None else 0
        if bound is None:
            return KnownIdentity(node_uid=uid, revoked_before=before)
        return KnownIdentity(
            node_uid=uid,
            bound_uid=bound.node_uid,
            issued=WallClock.moment(bound.issued),
            expires=WallClock.moment(bound.expires),
            revoked_before=before,
        )

    def observed(
        self, node: str, observed: status_cache.Observed, now: float, *, is_news: bool, connected: bool
    ) -> None:
        """An EdgeNode as it is in the API; ``is_news`` is False for an echo of our write.

        ``connected``: it has a session.
        """
        self.grants.remember(node, edge_node.granted_topics(observed))
        self.node_status.observed(node, observed, now, is_news=is_news, connected=connected)

    def drop(self, node: str) -> None:
        """The Node was deleted.  Which of its certificates are blocked is still remembered."""
        self.node_status.drop_uid(node)
        self.grants.forget(node)
        self.controls.forget(node)

    def forget_expired(self, now: float, text: str) -> None:
        """Forget deleted Nodes whose certificates have all expired."""
        for node in self.identities.expired(text):
            if self.node_status.is_gone(node):
                self.identities.forget(node)
                self.node_status.forget(node, self.of(node), now)
