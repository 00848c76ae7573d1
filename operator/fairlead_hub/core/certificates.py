"""Certificates of nodes: issued and refused ones, late renewal, and the authorities that nodes trust.

joined, join_refused ─▶ Event on the EdgeNode, identity.* on the system topic
renewed, renewal_failed (in a session) ─▶ the same, EdgeNode, totals
judge_late (proven by an expired certificate) ─┬─ renewed_late
                                               └─ refused, or held: EdgeNode says what to approve
announce: our authorities ─▶ each node that reports others, once
heartbeat: another authority signs now ─▶ each node renews at some moment of the next day
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable
from typing import Final

from fairlead_hub.core.reports import Reports
from fairlead_hub.core.sessions import Sessions
from fairlead_hub.delivery.identities import NodeCertificate
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.identity import late_renewal
from fairlead_hub.identity.late_renewal import Claim, KnownNode, RenewalRefusal
from fairlead_hub.identity.revocation import KnownIdentity
from fairlead_hub.identity.signer import Authority, AuthorityBundle
from fairlead_hub.session_ref import SessionRef
from fairlead_hub.status.status_cache import node_notice
from fairlead_hub.wall_clock import WallClock
from fairlead_wire import message
from fairlead_wire.event import short

STARTING_RETRY_SECONDS = 1.0
HELD: Final = ("newest", "other", "unknown")
"""Which authorities connected nodes trust: our current ones, others, or unknown (not reported, or none announced)."""


class Certificates:
    """See the module docstring.  ``now`` is always seconds of one monotonic clock."""

    def __init__(self, sessions: Sessions, reports: Reports, clock: WallClock, *, late_days: int) -> None:
        self._sessions, self._open = sessions, sessions.index
        self._terms, self._identities = sessions.terms, sessions.terms.identities
        self._reports, self._clock = reports, clock
        self._late_days = late_days
        self._signed_by: Authority | None = None

    @property
    def are_judged(self) -> bool:
        """Whether it is known which certificates are held and revoked.

        Until then sessions are refused as ``starting``.
        """
        return self._terms.judges_certificates

    def known_identity(self, node: str) -> KnownIdentity:
        """What is known of a name that a device requests."""
        return self._terms.known_identity(node)

    def revoked_before(self, node: str) -> datetime.datetime | None:
        """Certificates of this node from before this moment are revoked; None if none are."""
        found = self._identities.revoked.get(node)
        return found.moment if found is not None else None

    # ---- joining ---------------------------------------------------------------------------------

    def joined(
        self, node: str, *, serial: str, expires: str, token: str, replaced: bool, peer: str, now: float
    ) -> None:
        data = {"serial": serial, "expires": expires, "token": token, "replaced": replaced, "peer": peer}
        self._reports.cloud_events.identity_joined(node, data, now)
        text = f"joined by token {token} from {peer}, certificate {serial} until {expires}"
        self._reports.notices([node_notice(node, "Normal", "IdentityJoined", text)], now)
        self._open.changed()

    def join_refused(self, node: str, *, code: str, reason: str, token: str, peer: str, now: float) -> None:
        """``node`` is empty until the secret was verified.

        Until then the name is only the device's claim, so no Event is written and the name is not passed on.
        """
        data = {"message": short(reason), "token": token, "peer": peer}
        self._reports.cloud_events.identity_refused(node, code, data, now)
        if node:
            text = f"{code}: {reason} (token {token}, from {peer})"
            self._reports.notices([node_notice(node, "Warning", "IdentityRefused", text)], now)
        self._open.changed()

    # ---- renewal in a session --------------------------------------------------------------------

    def signs(self, signing: Callable[[], Authority | None]) -> None:
        """Enable signing; ``signing`` returns the authority that signs now."""
        self._identities.plan.signs(signing)

    def renew_after(self, shown: NodeCertificate, now: float) -> float | None:
        """Seconds after which a node with this certificate should renew it; None if this hub signs none."""
        return self._identities.renew_after(shown, now)

    def renewed(self, session: SessionRef, issued: NodeCertificate, now: float) -> None:
        """The node received this certificate; its session continues with the old one."""
        node = session.node
        self._identities.issued(node, issued)
        self._terms.node_status.changed(node)
        self._open.changed()
        self._reports.notices([node_notice(node, "Normal", "IdentityRenewed", _text(issued))], now)

    def renewal_failed(self, session: SessionRef, code: str, reason: str, now: float) -> None:
        """The node asks again later; its session continues."""
        node = session.node
        self._identities.renewal_failed(node, f"{code}: {reason}")
        self._terms.node_status.changed(node)
        self._open.changed()
        self._refused(node, code, f"not renewed: {reason}", now)

    # ---- late renewal ----------------------------------------------------------------------------

    def judge_late(self, claim: Claim, now: float, *, given_to: str = "") -> RenewalRefusal | None:
        """Decide whether a device with an expired certificate may get a new one; None if it may.

        Then call ``renewed_late``.  ``given_to``: another key that got a certificate for this claim.
        """
        if not self._terms.judges_certificates:
            reason = "the hub has just started and has not listed nodes and edgenodes yet"
            return RenewalRefusal(code="starting", reason=reason, retry_after=STARTING_RETRY_SECONDS)
        node, identities, status = claim.node, self._identities, self._terms.node_status
        bound = identities.bound(node)
        uid = status.node_uids.get(node, "")
        known = KnownNode(
            exists=node in self._terms.nodes,
            connected=node in self._open.by_node,
            given_to=given_to,
            recreated=bound is not None and bool(uid) and bound.node_uid != uid,
            newest_issued=None if bound is None else self._clock.moment(bound.issued),
            store_epoch=status.last_store_epoch(node),
            revoked=identities.revoked_why(node, self._clock.text_of(int(claim.not_before))),
            approved=identities.approved(node),
        )
        refusal = late_renewal.judge(claim, known, now=self._clock.seconds(now), late_days=self._late_days)
        if refusal is not None:
            self._late_refused(node, refusal, now)
        return refusal

    def _late_refused(self, node: str, refusal: RenewalRefusal, now: float) -> None:
        self._reports.refused(refusal.code)
        text = f"{refusal.code}: {refusal.reason}"
        if refusal.code in ("node_unknown", "starting"):
            return
        if not refusal.held:
            self._refused(node, refusal.code, refusal.reason, now)
        elif self._identities.held.get(node) != refusal.held:
            self._identities.hold(node, refusal.held)
            self._terms.node_status.refused(node)
            self._reports.notices([node_notice(node, "Warning", "LateRenewalHeld", text)], now)
        self._open.changed()

    def _refused(self, node: str, code: str, reason: str, now: float) -> None:
        self._reports.cloud_events.identity_refused(node, code, {"message": short(reason)}, now)
        self._reports.notices([node_notice(node, "Warning", "IdentityRefused", f"{code}: {reason}")], now)

    def renewed_late(self, node: str, issued: NodeCertificate, now: float) -> None:
        """The node got a new certificate and reconnects with it."""
        self._identities.release(node)
        self._terms.node_status.refused(node)
        self._open.changed()
        self._reports.notices([node_notice(node, "Normal", "IdentityRenewedLate", _text(issued))], now)

    # ---- authorities -----------------------------------------------------------------------------

    def announce(self, bundle: AuthorityBundle) -> int:
        """These are our authorities now.  Returns the number of sessions they are sent to."""
        if bundle == self._sessions.authorities:
            return 0
        self._sessions.authorities = bundle
        return sum([self._sessions.send_authorities(session) for session in self._talking()])

    def heartbeat(self, now: float) -> int:
        """Call about every second.  Returns the number of nodes asked to renew because another authority signs now."""
        signs, before = self._identities.plan.authority, self._signed_by
        self._signed_by = signs
        if signs is None or before is None or signs == before:
            return 0  # nodes that connect later learn it from the welcome
        return sum([self._renew_earlier(session, now) for session in self._talking()])

    def _talking(self) -> list[NodeSession]:
        """Sessions of nodes that report the authorities they trust; older agents do not know the frame."""
        return [each for each in self._open.by_node.values() if each.authorities and each.closing is None]

    def _renew_earlier(self, session: NodeSession, now: float) -> bool:
        newest = self._identities.newest(session.node)
        if newest is None:
            return False
        after = self._identities.plan.earlier_renewal(newest.issued, newest.expires, newest.issuer, now)
        if after is None:
            return False
        session.say(message.Authorities(renew_after_seconds=after), b"")
        self._open.touch(session)
        return True

    def trust_counts(self) -> Counter[str]:
        """Connected nodes by the authorities they trust.

        An old authority may be removed when all hold the newest bundle.
        """
        newest = self._sessions.authorities.digest if self._sessions.authorities is not None else ""
        found = Counter(dict.fromkeys(HELD, 0))
        for session in self._open.by_node.values():
            held = session.authorities
            found["unknown" if not (held and newest) else "newest" if held == newest else "other"] += 1
        return found


def _text(issued: NodeCertificate) -> str:
    return f"a new certificate until {issued.expires} (serial {issued.serial}, by {issued.issuer})"
