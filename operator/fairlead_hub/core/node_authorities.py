"""Which authorities nodes believe, and what is said to them when ours change or another one signs for nodes.

    tls_ca ─announce─▶ ┐                    ┌─▶ told, each once: the bundle
    status ─said─────▶ ├─ NodeAuthorities ──┤
    signer ─heartbeat▶ ┘                    └─▶ told: renew at some moment of the coming day

Only nodes whose status names what they hold get this frame.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from fairlead_hub.core.open_sessions import OpenSessions
from fairlead_hub.delivery.opening.identities import Identities
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.identity.renewal import RenewalPlan
from fairlead_hub.identity.signer import Authority
from fairlead_wire import message

HELD: Final = ("newest", "other", "unknown")
"""What a connected node may hold: ours as they are now, others; or it does not say, or we have announced none."""


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """Our authorities (PEM) and their digest, and what vouches for them: our certificate and its chain (PEM)."""

    digest: str
    authorities: bytes
    certificates: str


class NodeAuthorities:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    def __init__(self, sessions: OpenSessions, identities: Identities, plan: RenewalPlan) -> None:
        self._sessions, self._identities, self._plan = sessions, identities, plan
        self._bundle: Bundle | None = None
        self._held: dict[NodeSession, str] = {}
        """What the node of a session says that it holds."""
        self._told: dict[NodeSession, str] = {}
        """The bundle that was sent in it last: one that is refused is not sent again and again."""
        self._signed_by: Authority | None = None

    def announce(self, bundle: Bundle) -> int:
        """These are ours now; returns to how many sessions they are sent."""
        if bundle == self._bundle:
            return 0
        self._bundle = bundle
        return sum([self._tell(session) for session in self._held])

    def said(self, session: NodeSession, digest: str) -> None:
        """Its node holds these."""
        if digest and session.closing is None:
            self._held[session] = digest
            self._tell(session)

    def closed(self, session: NodeSession) -> None:
        """Its connection is gone."""
        self._held.pop(session, None)
        self._told.pop(session, None)

    def heartbeat(self, now: float) -> int:
        """Asked every second or so; returns how many nodes are asked to renew because another authority signs now."""
        signs, before = self._plan.authority, self._signed_by
        self._signed_by = signs
        if signs is None or before is None or signs == before:
            return 0  # nodes that connect from now on learn it from the welcome
        return sum([self._hasten(session, now) for session in self._held])

    def counts(self) -> Counter[str]:
        """Connected nodes by what they hold.  An old authority may go when all hold the newest bundle."""
        newest = self._bundle.digest if self._bundle is not None else ""
        found = Counter(dict.fromkeys(HELD, 0))
        for session in self._sessions.by_node.values():
            held = self._held.get(session)
            found["unknown" if not (held and newest) else "newest" if held == newest else "other"] += 1
        return found

    def _tell(self, session: NodeSession) -> bool:
        bundle = self._bundle
        if bundle is None or self._held[session] == bundle.digest or self._told.get(session) == bundle.digest:
            return False
        self._told[session] = bundle.digest
        return self._say(session, message.Authorities(certificates=bundle.certificates), bundle.authorities)

    def _hasten(self, session: NodeSession, now: float) -> bool:
        newest = self._identities.newest(session.node)
        after = self._plan.hastened(newest.issued, newest.expires, newest.issuer, now) if newest is not None else None
        return after is not None and self._say(session, message.Authorities(renew_after_seconds=after), b"")

    def _say(self, session: NodeSession, header: message.Authorities, content: bytes) -> bool:
        if session.closing is not None:
            return False
        session.say(header, content)
        self._sessions.touch(session)
        return True
