"""Sessions of nodes: opening, receiving, sending, comparing, replacing, refusing, closing.

    hello ─open─▶ admission, identity ─▶ a session, or the reason for refusing it
    frame ─receive─▶ ``_HANDLERS``, by type ─▶ keys, comparison, status; or returned to the shell
    room, changes, time ─take─▶ frames, the last frame (``closing``), connections to abort

The shell names a session by its ``SessionRef``; calls about a session whose connection is closed have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fairlead_hub import status_from_edge
from fairlead_hub.cluster.content import LiveObject
from fairlead_hub.cluster.desired_state import DesiredState
from fairlead_hub.core.node_terms import NodeTerms
from fairlead_hub.core.open_sessions import OpenSessions
from fairlead_hub.core.reports import Reports
from fairlead_hub.delivery import admission, identities
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.identity.signer import AuthorityBundle
from fairlead_hub.ready import SILENT, SessionOutput
from fairlead_hub.session_ref import Frame, SessionRef
from fairlead_hub.settings import HubSettings
from fairlead_hub.status.status_cache import node_notice
from fairlead_hub.status_from_edge import RulesOfNodes
from fairlead_wire import message
from fairlead_wire.errors import LocalError, Malformed
from fairlead_wire.link import peer_json

TURN_FRAMES: Final = 32
"""Frames taken from a session per turn.  Then other sessions are served, and the rest follows immediately."""
REPLACED = "a newer connection of this node took over; if it was not yours, a second machine has its identity"
REPLACED_RETRY_SECONDS = 60.0
"""Delay for a second machine with the same identity: long enough that two of them do not evict each other all day."""
FRAME_BYTES_MAX = 4 * 1024 * 1024
RESYNC_REASON = "a complete comparison was requested"
RESYNC_SECONDS = 0.0
"""Delay before the node reconnects; it adds jitter."""
STATUS_RULES_NEED: Final = frozenset(("nodes", "syncrules"))
"""Collections that must be listed before the hub can send a node the objects it may report status for."""
ForShell = (
    message.Upstream
    | message.AskTables
    | message.Report
    | message.Renew
    | message.InputStates
    | message.Ack
    | message.Nack
)
"""A frame that a service of the shell answers; ``Ack`` and ``Nack`` belong to a frame sent by ``ask``."""
_edge_status = msgspec.json.Decoder(message.EdgeStatus)


class Sessions:
    """See the module docstring.  ``hub`` is this hub's name; ``now`` is always seconds of one monotonic clock."""

    def __init__(
        self,
        settings: HubSettings,
        hub: str,
        *,
        index: OpenSessions,
        desired_state: DesiredState,
        terms: NodeTerms,
        reports: Reports,
    ) -> None:
        self.index = index
        self.terms = terms
        self.authorities: AuthorityBundle | None = None
        """The authorities nodes should trust; None if nothing was announced."""
        self._settings = settings
        self._hub = hub
        self._policy = settings.delivery.policy()
        self._desired_state = desired_state
        self._reports = reports
        self._status_rules = RulesOfNodes(desired_state.placement.rules)
        self._next_number = 1

    # ---- opening ---------------------------------------------------------------------------------

    def open(
        self, node: str, hello: message.Hello, now: float, shown: identities.NodeCertificate | None = None
    ) -> SessionRef | message.Refuse:
        """Open a session for a hello.

        ``node`` is the name in its certificate ``shown``, or its own claim where security is off.
        """
        if (refusal := self._refusal(node, hello, shown, now)) is not None:
            self._reports.refused(refusal.code)
            return refusal
        if (old := self.index.by_node.get(node)) is not None:
            self.end(old, "replaced", REPLACED, REPLACED_RETRY_SECONDS, now)
            self._reports.replaced(old, hello, now)
        session = self._make(node, hello, now)
        self.terms.identities.opened(node, shown)
        session.welcome(self._welcome(session.number, shown, now), now)
        self.index.add(session)
        self._send_status_rules(session)
        self.terms.grant(node)
        self._reports.opened(session, hello, now)
        self.terms.node_status.opened_with(node, hello.store_epoch)
        return session.ref

    def _refusal(
        self, node: str, hello: message.Hello, shown: identities.NodeCertificate | None, now: float
    ) -> message.Refuse | None:
        """Why no session is opened; None if one is."""
        placement, sessions = self._desired_state.placement, self.index.by_node
        if (refusal := self.terms.refusal(node, shown)) is not None:
            return refusal
        refusal = admission.refusal(
            node,
            hello,
            nodes=placement.rules.nodes if placement.listed.nodes else None,
            others=len(sessions) - (node in sessions),
            nodes_max=self._settings.link.nodes_max,
        )
        if refusal is not None:
            return refusal
        if why := self._refused_identity(node, shown, now):
            return message.Refuse(code="identity", reason=why, retry_after=identities.HELD_RETRY_SECONDS)
        approved = self.terms.controls.is_fence_approved(node, hello.fence)
        stale = admission.stale(hello, self.terms.node_status.fence, approved=approved)
        # While the node has a session, this is another machine with its name and does not change the node's status.
        if stale is not None and node not in sessions:
            self.terms.node_status.stale_hub(node, hello.fence, stale.reason, now)
        return stale

    def _refused_identity(self, node: str, shown: identities.NodeCertificate | None, now: float) -> str:
        why = self.terms.refused_identity(node, shown)
        if why:
            self._reports.notices([node_notice(node, "Warning", "IdentityHeld", why)], now)
        return why

    def _make(self, node: str, hello: message.Hello, now: float) -> NodeSession:
        number, self._next_number = self._next_number, self._next_number + 1
        settings, controls = self._settings, self.terms.controls
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
            rate=self.index.rate,
        )

    def _welcome(self, number: int, shown: identities.NodeCertificate | None, now: float) -> message.Welcome:
        link = self._settings.link
        return message.Welcome(
            hub=self._hub,
            fence=self.terms.node_status.fence,
            session=number,
            keepalive_seconds=link.keepalive_seconds,
            frame_bytes_max=FRAME_BYTES_MAX,
            upstream_window=link.upstream_window,
            renew_after_seconds=None if shown is None else self.terms.identities.renew_after(shown, now),
            tables=True,
            reports=True,
        )

    # ---- what the shell knows of them ------------------------------------------------------------

    def of_node(self, node: str) -> SessionRef | None:
        """The node's session; None if it has none, or it is refused."""
        session = self.index.by_node.get(node)
        return session.ref if session is not None else None

    def is_open(self, ref: SessionRef) -> bool:
        """Whether this is still the node's session and has not ended."""
        session = self.index.find(ref)
        return session is not None and session.closing is None and self.index.by_node.get(ref.node) is session

    def room(self, ref: SessionRef, has_room: bool) -> None:
        """Its connection accepts frames again, or does not for now (initially it does)."""
        if (session := self.index.find(ref)) is not None:
            session.room(has_room)
            if session.has_frames:
                self.index.touch_at_once(session)

    # ---- what edges say --------------------------------------------------------------------------

    def receive(self, ref: SessionRef, header: message.FromEdge, content: bytes, now: float) -> ForShell | None:
        """Handle a frame.  Returns it if a service of the shell has to answer it, with ``say``.

        Raises ``Malformed``: refuse the session with that reason.
        """
        session = self.index.find(ref)
        if session is None or session.cut:
            return None
        if session.closing is not None:
            # It crossed the refusal, and a newer session may know better what the node holds.
            if isinstance(header, _ANSWERS) and session.is_answer(header.parent_id):
                return header
            return None
        session.link.received(header, now)
        handler = _HANDLERS.get(type(header))
        if handler is None:
            raise Malformed(f"{type(header).__name__.lower()} is not for this session")
        return handler(self, session, header, content, now)

    def receive_part(self, ref: SessionRef, now: float) -> None:
        """Part of a long message arrived: the node is alive.

        Send it a keepalive, since its own waits behind the message.
        """
        if (session := self.index.find(ref)) is not None:
            session.part_received(now)
            self.index.touch(session)

    def _acked(self, session: NodeSession, header: message.Ack, content: bytes, now: float) -> ForShell | None:
        if session.is_answer(header.parent_id):
            return header
        session.keys.acked(header, now)
        self.index.touch(session)
        return None

    def _nacked(self, session: NodeSession, header: message.Nack, content: bytes, now: float) -> ForShell | None:
        if session.is_answer(header.parent_id):
            return header
        session.keys.nacked(header, now)
        self.index.touch(session)
        return None

    def _progressed(self, session: NodeSession, header: message.Progress, content: bytes, now: float) -> None:
        session.keys.in_flight.progressed(header.parent_id, now)

    def _kept_alive(self, session: NodeSession, header: message.Keepalive, content: bytes, now: float) -> None:
        session.say(message.Keepalive())
        self.index.touch(session)

    def _compared(
        self, session: NodeSession, header: message.BucketSums | message.Entries, content: bytes, now: float
    ) -> None:
        session.compared(header, content)
        self.index.touch(session)

    def _received_status(self, session: NodeSession, header: message.Status, content: bytes, now: float) -> None:
        """The edge's own status report."""
        status = peer_json.decode(_edge_status, content)
        node, events = session.node, self._reports.cloud_events
        before = self.terms.node_status.received(node, status, now)
        events.routes_reported(node, before.routes if before else {}, status.routes, now)
        events.queues_stalled(node, status, now)
        if status.authorities:
            session.believes(status.authorities)
            self.send_authorities(session)
        self.index.changed()

    def _for_shell(self, session: NodeSession, header: ForShell, content: bytes, now: float) -> ForShell | None:
        return header

    def _received_input_states(
        self, session: NodeSession, header: message.InputStates, content: bytes, now: float
    ) -> ForShell:
        session.is_answer(header.parent_id)
        return header

    # ---- what the shell's services say -----------------------------------------------------------

    def say(self, ref: SessionRef, header: message.FromHub, content: bytes = b"") -> None:
        """Send a service's answer to a frame that ``receive`` returned, ahead of anything about objects.

        For messages: only after messaging, or the API server, has stored or finally refused them.
        """
        if (session := self.index.find(ref)) is not None:
            session.say(header, content)
            self.index.touch(session)

    def ask(
        self, ref: SessionRef, make: Callable[[int], message.Input | message.AskInputs], content: bytes = b""
    ) -> int:
        """Send a frame that the node answers; ``make`` builds it from its id, which is returned.

        ``receive`` returns the answer.  0: the connection is closed.
        """
        session = self.index.find(ref)
        if session is None:
            return 0
        id = session.take_asked_id()
        session.say(make(id), content)
        self.index.touch(session)
        return id

    def judge_report(
        self, ref: SessionRef, report: message.Report, content: bytes
    ) -> status_from_edge.ReportAccepted | status_from_edge.ReportRefused:
        """Decide whether this node may report this status of this object."""
        return status_from_edge.judge(self._desired_state.placement, ref.node, report, content)

    def messages_refused(self, node: str, refused: list[message.RefusedItem], now: float) -> None:
        """Messages that will never be stored."""
        self._reports.cloud_events.messages_refused(node, refused, now)
        self.index.changed()

    def report_refused(self, node: str, live: LiveObject, code: str, reason: str, now: float) -> None:
        """The status that a node reported of this object will never be written."""
        self._reports.status_refused(node, live, code, reason, now)
        self.index.changed()

    # ---- sending ---------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Run the sessions that are due; a node that is silent for too long is cut off."""
        for session in self.index.take_due(now):
            if not session.is_over and not session.tick(now):
                session.end(SILENT)

    def take(self, now: float) -> tuple[list[SessionOutput], bool]:
        """Frames to send now: at most ``TURN_FRAMES`` for each session that has any and whose connection has room.

        The flag is True if some sessions have more, which follows with the next call.
        """
        self.index.take_turns(now)
        found: list[SessionOutput] = []
        has_more = False
        for session in self.index.take_touched():
            if session.has_frames:
                found.append(self._output(session, now))
                if session.has_frames:
                    has_more = True
                    self.index.keep(session)
            elif session.cut:
                found.append(SessionOutput(session=session.ref, frames=[], cut=session.cut))
            if session.is_over:
                continue
            if session.keys.events:
                self.index.touch(session)
            self.index.arm(session)
        return found, has_more

    def _output(self, session: NodeSession, now: float) -> SessionOutput:
        try:
            frames = self._frames(session, now)
        except LocalError as error:
            # This is a defect of ours that affects one node: it reconnects and is compared; the others are not
            # affected.
            session.end(f"unsendable: {error}")
            return SessionOutput(session=session.ref, frames=[], cut=session.cut)
        return SessionOutput(session=session.ref, frames=frames, closing=session.closing)

    def _frames(self, session: NodeSession, now: float) -> list[Frame]:
        """Raises ``LocalError``."""
        return session.frames(now, TURN_FRAMES)

    # ---- while they are open ---------------------------------------------------------------------

    def compare_again(self, now: float) -> None:
        """Compare the sessions that may have to hold something else now; end those that may not be served any more."""
        listed, nodes = self._desired_state.placement.listed, self._desired_state.placement.rules.nodes
        for session in self.index.take_compared():
            node = session.node
            if listed.nodes and node not in nodes:
                self.end(session, "node_unknown", admission.unknown(node), admission.NODE_GONE_RETRY_SECONDS, now)
            elif why := self._refused_identity(node, self.terms.identities.of_session(node), now):
                self.end(session, "identity", why, identities.HELD_RETRY_SECONDS, now)
            else:
                self.terms.grant(node)
                self._send_status_rules(session)
                session.try_compare()
                session.keys.diff(now)

    def _send_status_rules(self, session: NodeSession) -> None:
        if self._desired_state.placement.listed.inputs >= STATUS_RULES_NEED:
            rules = self._status_rules.of(session.node)
            session.send_status_rules(rules.header, rules.content)

    def send_authorities(self, session: NodeSession) -> bool:
        """Send them to a node that reports which authorities it trusts."""
        bundle = self.authorities
        if bundle is None:
            return False
        header = message.Authorities(certificates=bundle.certificates)
        if not session.send_authorities(bundle.digest, header, bundle.authorities):
            return False
        self.index.touch(session)
        return True

    # ---- ending ----------------------------------------------------------------------------------

    def refuse(self, ref: SessionRef, refusal: message.Refuse) -> None:
        """End a session for a reason of the shell's: it broke the protocol, or the hub is stopping."""
        if (session := self.index.find(ref)) is not None:
            session.refuse(refusal)
            self.index.touch(session)

    def end(self, session: NodeSession, code: Any, reason: str, retry_after: float, now: float) -> None:
        """End the session with this reason.  Frames that still arrive have no effect."""
        session.refuse(message.Refuse(code=code, reason=reason, retry_after=retry_after))
        self._reports.refused(code)
        if self.index.by_node.get(session.node) is session:
            self._reports.delivered(session, now)
            self.index.remove(session)
            self._reports.ended(session, "" if code == "replaced" else code, now)
        self.index.touch(session)

    def end_node(self, node: str, code: Any, reason: str, retry_after: float, now: float) -> None:
        """Like ``end``, for this node's session, if it has one."""
        session = self.index.by_node.get(node)
        if session is not None:
            self.end(session, code, reason, retry_after, now)

    def end_refused(self, node: str, now: float) -> None:
        """End the node's session if it may no longer be open, for example because its certificate was revoked."""
        refusal = self.terms.refusal(node, self.terms.identities.of_session(node))
        if refusal is not None:
            self.end_node(node, refusal.code, refusal.reason, refusal.retry_after or 0.0, now)

    def resync(self, node: str, annotations: Mapping[str, str], now: float) -> None:
        """End the node's session if its EdgeNode asks for a new complete comparison.

        The opening comparison does not rely on anything remembered here, and parked objects are retried after it.
        """
        if self.terms.controls.is_resync_asked(node, annotations):
            self.end_node(node, "draining", RESYNC_REASON, RESYNC_SECONDS, now)

    def closed(self, ref: SessionRef, now: float) -> None:
        """The connection is closed.  Drop the session; a newer one of the same node stays."""
        session = self.index.find(ref)
        if session is None:
            return
        self._reports.delivered(session, now)
        self.index.forget(session)
        if self.index.remove(session):
            ended = "connection_ended" if session.closing is None else session.closing.code
            self._reports.ended(session, ended, now)
            self.index.changed()


_Handler = Callable[[Sessions, NodeSession, Any, bytes, float], ForShell | None]
_HANDLERS: Final[Mapping[type[message.FromEdge], _Handler]] = {
    message.Ack: Sessions._acked,
    message.Nack: Sessions._nacked,
    message.Progress: Sessions._progressed,
    message.Keepalive: Sessions._kept_alive,
    message.BucketSums: Sessions._compared,
    message.Entries: Sessions._compared,
    message.Status: Sessions._received_status,
    message.Upstream: Sessions._for_shell,
    message.AskTables: Sessions._for_shell,
    message.Report: Sessions._for_shell,
    message.Renew: Sessions._for_shell,
    message.InputStates: Sessions._received_input_states,
}
"""The handler for each frame from an edge."""
_ANSWERS: Final = (message.Ack, message.Nack, message.InputStates)
