"""Sessions: opened, compared again, replaced, refused, gone.

hello ─▶ admission, identity ─▶ NodeSession, or the reason why not
rules, labels, lists changed ─▶ compared again, or refused: its Node is gone, its certificate not taken any more
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead_hub.cluster.desired_state import DesiredState
from fairlead_hub.core.node_terms import NodeTerms
from fairlead_hub.core.open_sessions import OpenSessions
from fairlead_hub.core.reports import Reports
from fairlead_hub.core.status_permissions import StatusPermissions
from fairlead_hub.delivery.opening import admission, identities
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.settings import HubSettings
from fairlead_hub.status.notice import of_node
from fairlead_wire import message

REPLACED = "a newer connection of this node took over; if it was not yours, a second machine has its identity"
REPLACED_RETRY_SECONDS = 60.0
"""A second machine with the same identity: long enough that two of them do not throw each other out all day."""
FRAME_BYTES_MAX = 4 * 1024 * 1024
RESYNC_REASON = "it was asked to compare everything again"
RESYNC_SECONDS = 0.0
"""Until the node comes again; it adds a moment of its own."""


class SessionLifecycle:
    """See the module.  ``hub`` is this hub's name; ``now`` is always seconds of one monotonic clock."""

    def __init__(
        self,
        settings: HubSettings,
        hub: str,
        *,
        sessions: OpenSessions,
        desired_state: DesiredState,
        terms: NodeTerms,
        reports: Reports,
    ) -> None:
        self._permissions = StatusPermissions(desired_state.placement)
        self._settings = settings
        self._hub = hub
        self._policy = settings.delivery.policy()
        self._sessions = sessions
        self._desired_state = desired_state
        self._terms = terms
        self._reports = reports
        self._next_number = 1

    # ---- opening ---------------------------------------------------------------------------------

    def open(
        self,
        node: str,
        hello: message.Hello,
        shown: identities.Shown | None,
        fence: int,
        now: float,
        *,
        renew_after: float | None = None,
    ) -> NodeSession | message.Refuse:
        """``node`` is what its certificate ``shown`` says, or its word where security is off.

        ``renew_after``: when it should ask for its next certificate, in seconds; None: not here.
        """
        listed, nodes = self._desired_state.placement.listed, self._desired_state.placement.rules.nodes
        if (refusal := self._terms.barred(node, shown, listed.inputs)) is not None:
            self._reports.refused(refusal.code)
            return refusal
        refusal = admission.refusal(
            node,
            hello,
            nodes=nodes if listed.nodes else None,
            others=len(self._sessions.by_node) - (node in self._sessions.by_node),
            nodes_max=self._settings.link.nodes_max,
        )
        if refusal is None and (why := self._refused_identity(node, shown, now)):
            refusal = message.Refuse(code="identity", reason=why, retry_after=identities.HELD_RETRY_SECONDS)
        if refusal is None:
            refusal = self._stale(node, hello, fence, now)
        if refusal is not None:
            self._reports.refused(refusal.code)
            return refusal
        self._replace(node, hello, now)
        session = self._make(node, hello, now)
        self._sessions.add(session)
        self._terms.identities.opened(node, shown)
        session.welcome(self._welcome(session.number, fence, renew_after), now)
        self._permissions.opened(session)
        self._terms.grant(node)
        self._reports.opened(session, hello, now)
        self._sessions.touch(session)
        return session

    def _stale(self, node: str, hello: message.Hello, fence: int, now: float) -> message.Refuse | None:
        """Why it is refused if it has obeyed a higher fencing number; its EdgeNode says so."""
        approved = self._terms.controls.is_fence_approved(node, hello.fence)
        refusal = admission.stale(hello, fence, approved=approved)
        # While it has a session this is another one with its name, which changes nothing that is said of it.
        if refusal is not None and node not in self._sessions.by_node:
            self._terms.node_status.stale_hub(node, hello.fence, refusal.reason, now)
        return refusal

    def _make(self, node: str, hello: message.Hello, now: float) -> NodeSession:
        number, self._next_number = self._next_number, self._next_number + 1
        settings, controls = self._settings, self._terms.controls
        return NodeSession(
            node=node,
            number=number,
            hello=hello,
            view=self._desired_state,
            limits=settings.window,
            policy=self._policy,
            reconcile=settings.reconcile,
            held_max=settings.link.held_max,
            keepalive_seconds=settings.link.keepalive_seconds,
            now=now,
            paused=controls.paused(node),
            guard=controls.guard(node),
            rate=self._sessions.rate,
        )

    def _welcome(self, number: int, fence: int, renew_after: float | None) -> message.Welcome:
        link = self._settings.link
        return message.Welcome(
            hub=self._hub,
            fence=fence,
            session=number,
            keepalive_seconds=link.keepalive_seconds,
            frame_bytes_max=FRAME_BYTES_MAX,
            upstream_window=link.upstream_window,
            renew_after_seconds=renew_after,
            tables=True,
            reports=True,
        )

    def _replace(self, node: str, hello: message.Hello, now: float) -> None:
        old = self._sessions.by_node.get(node)
        if old is not None:
            self.refuse(old, "replaced", REPLACED, REPLACED_RETRY_SECONDS, now)
            self._reports.replaced(old, hello, now)

    def revoked(self, node: str, now: float) -> None:
        """Something was revoked, or may be open no more for another reason: cut the node's session if it is."""
        listed = self._desired_state.placement.listed.inputs
        refusal = self._terms.barred(node, self._terms.identities.of_session(node), listed)
        if refusal is not None:
            self.refuse_node(node, refusal.code, refusal.reason, refusal.retry_after or 0.0, now)

    def _refused_identity(self, node: str, shown: identities.Shown | None, now: float) -> str:
        why = self._terms.refused_identity(node, shown, self._desired_state.placement.listed.inputs)
        if why:
            self._reports.notices([of_node(node, "Warning", "IdentityHeld", why)], now)
        return why

    # ---- while it is open ------------------------------------------------------------------------

    def compare_again(self, now: float) -> None:
        """Those that may have to hold something else now; or may not be served any more."""
        listed, nodes = self._desired_state.placement.listed, self._desired_state.placement.rules.nodes
        for session in self._sessions.take_compared():
            node = session.node
            if listed.nodes and node not in nodes:
                self.refuse(session, "node_unknown", admission.unknown(node), admission.NODE_GONE_RETRY_SECONDS, now)
            elif why := self._refused_identity(node, self._terms.identities.of_session(node), now):
                self.refuse(session, "identity", why, identities.HELD_RETRY_SECONDS, now)
            else:
                self._terms.grant(node)
                self._permissions.tell(session)
                session.try_compare()
                session.diff(now)

    # ---- ending ----------------------------------------------------------------------------------

    def refuse(self, session: NodeSession, code: Any, reason: str, retry_after: float, now: float) -> None:
        """End it with this reason.  Nothing that it still says counts."""
        session.refuse(message.Refuse(code=code, reason=reason, retry_after=retry_after))
        self._reports.refused(code)
        if self._sessions.by_node.get(session.node) is session:
            self._reports.delivered(session, now)
            self._sessions.remove(session)
            self._reports.ended(session, "" if code == "replaced" else code, now)
        self._sessions.touch(session)

    def refuse_node(self, node: str, code: Any, reason: str, retry_after: float, now: float) -> None:
        """The same of this node's session, if it has one."""
        session = self._sessions.by_node.get(node)
        if session is not None:
            self.refuse(session, code, reason, retry_after, now)

    def resync(self, node: str, annotations: Mapping[str, str], now: float) -> None:
        """End the node's session where its EdgeNode asks anew to compare everything again.

        The opening comparison trusts nothing that is remembered here, and by it what was parked is tried anew.
        """
        if self._terms.controls.is_resync_asked(node, annotations):
            self.refuse_node(node, "draining", RESYNC_REASON, RESYNC_SECONDS, now)

    def closed(self, session: NodeSession, now: float) -> None:
        """The connection is gone.  Nothing of the session is kept; a newer one of the same node stays."""
        self._permissions.closed(session)
        self._reports.delivered(session, now)
        self._sessions.forget(session)
        if self._sessions.remove(session):
            ended = "connection_ended" if session.closing is None else session.closing.code
            self._reports.ended(session, ended, now)
            self._sessions.changed()
