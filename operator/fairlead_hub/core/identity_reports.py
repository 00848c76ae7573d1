"""Who got a certificate and who did not, passed on: to Kubernetes Events and CloudEvents.

    joined, refused ─▶ Event on the EdgeNode, identity.* on the system topic

Until a device has shown the secret of a token, the name it gives is its own word: of such refusals no Event is written,
and the name is not passed on.
"""

from __future__ import annotations

from fairlead_hub.core.open_sessions import OpenSessions
from fairlead_hub.core.reports import Reports
from fairlead_hub.status.notice import of_node
from fairlead_wire.event import short


class IdentityReports:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    def __init__(self, reports: Reports, sessions: OpenSessions) -> None:
        self._reports, self._sessions = reports, sessions

    def joined(
        self, node: str, *, serial: str, expires: str, token: str, replaced: bool, peer: str, now: float
    ) -> None:
        data = {"serial": serial, "expires": expires, "token": token, "replaced": replaced, "peer": peer}
        self._reports.cloud_events.identity_joined(node, data, now)
        text = f"joined by token {token} from {peer}, certificate {serial} until {expires}"
        self._reports.notices([of_node(node, "Normal", "IdentityJoined", text)], now)
        self._sessions.changed()

    def refused(self, node: str, *, code: str, reason: str, token: str, peer: str, now: float) -> None:
        """``node`` is empty until the secret was right."""
        data = {"message": short(reason), "token": token, "peer": peer}
        self._reports.cloud_events.identity_refused(node, code, data, now)
        if node:
            text = f"{code}: {reason} (token {token}, from {peer})"
            self._reports.notices([of_node(node, "Warning", "IdentityRefused", text)], now)
        self._sessions.changed()
