"""Certificates of known nodes: the outcome of renewals, and who may renew late.

renew, in session ─▶ renewed | renewal_failed ─▶ EdgeNode, Events, totals
late, proven ──────▶ judge_late ─┬─ renewed_late
                                 └─ refused, or held: EdgeNode says what to approve
"""

from __future__ import annotations

from collections.abc import Collection

from fairlead_hub.core.node_terms import NodeTerms
from fairlead_hub.core.open_sessions import OpenSessions
from fairlead_hub.core.reports import Reports
from fairlead_hub.delivery.opening.identities import Shown
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.identity import late_renewal
from fairlead_hub.identity.late_renewal import Claim, KnownNode, RenewalRefusal
from fairlead_hub.status.notice import of_node
from fairlead_hub.wall_clock import WallClock
from fairlead_wire.event import short

STARTING_RETRY_SECONDS = 1.0


class CertificateChanges:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    def __init__(
        self, sessions: OpenSessions, terms: NodeTerms, reports: Reports, clock: WallClock, *, late_days: int
    ) -> None:
        self._sessions, self._terms, self._reports, self._clock = sessions, terms, reports, clock
        self._late_days = late_days

    def opened(self, node: str, store_epoch: int) -> None:
        """A session: this tells a copy of the disk from before it."""
        self._terms.node_status.opened_with(node, store_epoch)

    # ---- in a session ----------------------------------------------------------------------------

    def is_open(self, session: NodeSession) -> bool:
        """It is the node's session, and has not ended meanwhile."""
        return self._sessions.by_node.get(session.node) is session and session.closing is None

    def renewed(self, session: NodeSession, issued: Shown, now: float) -> None:
        """The node got this certificate; its session goes on with the old one."""
        node = session.node
        self._terms.identities.issued(node, issued)
        self._terms.node_status.changed(node)
        self._sessions.changed()
        self._reports.notices([of_node(node, "Normal", "IdentityRenewed", self._text(issued))], now)

    def renewal_failed(self, session: NodeSession, code: str, reason: str, now: float) -> None:
        """It asks again later, and its session goes on."""
        node = session.node
        self._terms.identities.renewal_failed(node, f"{code}: {reason}")
        self._terms.node_status.changed(node)
        self._sessions.changed()
        self._refused(node, code, f"not renewed: {reason}", now)

    # ---- late ------------------------------------------------------------------------------------

    def judge_late(
        self, claim: Claim, nodes: Collection[str] | None, now: float, *, given_to: str = ""
    ) -> RenewalRefusal | None:
        """What a device has proved; None: issue, and say ``renewed_late``.

        ``nodes``: the edge Nodes, None: they or EdgeNodes are not listed yet.  ``given_to``: another key that got
        a certificate for this claim.
        """
        if nodes is None:
            reason = "the hub has just started: nodes and edgenodes are not listed yet"
            return RenewalRefusal(code="starting", reason=reason, retry_after=STARTING_RETRY_SECONDS)
        node, identities = claim.node, self._terms.identities
        bound = identities.bound(node)
        uid = self._terms.node_status.node_uids.get(node, "")
        known = KnownNode(
            exists=node in nodes,
            connected=node in self._sessions.by_node,
            given_to=given_to,
            recreated=bound is not None and bool(uid) and bound.node_uid != uid,
            newest_issued=None if bound is None else self._clock.moment(bound.issued),
            store_epoch=self._terms.node_status.last_store_epoch(node),
            revoked=identities.revoked_why(node, self._clock.text_of(int(claim.not_before))),
            approved=identities.approved(node),
        )
        refusal = late_renewal.judge(claim, known, now=self._clock.seconds(now), late_days=self._late_days)
        if refusal is not None:
            self._late_refused(node, refusal, now)
        return refusal

    def _late_refused(self, node: str, refusal: RenewalRefusal, now: float) -> None:
        self._reports.refused(refusal.code)
        identities, text = self._terms.identities, f"{refusal.code}: {refusal.reason}"
        if refusal.code in ("node_unknown", "starting"):
            return
        if not refusal.held:
            self._refused(node, refusal.code, refusal.reason, now)
        elif identities.held.get(node) != refusal.held:
            identities.hold(node, refusal.held)
            self._terms.node_status.refused(node)
            self._reports.notices([of_node(node, "Warning", "LateRenewalHeld", text)], now)
        self._sessions.changed()

    def _refused(self, node: str, code: str, reason: str, now: float) -> None:
        self._reports.cloud_events.identity_refused(node, code, {"message": short(reason)}, now)
        self._reports.notices([of_node(node, "Warning", "IdentityRefused", f"{code}: {reason}")], now)

    def renewed_late(self, node: str, issued: Shown, now: float) -> None:
        """It has a certificate again, and comes with it."""
        self._terms.identities.release(node)
        self._terms.node_status.refused(node)
        self._sessions.changed()
        self._reports.notices([of_node(node, "Normal", "IdentityRenewedLate", self._text(issued))], now)

    @staticmethod
    def _text(issued: Shown) -> str:
        return f"a new certificate until {issued.expires} (serial {issued.serial}, by {issued.issuer})"
