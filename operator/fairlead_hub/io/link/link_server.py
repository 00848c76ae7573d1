"""The server nodes connect to: no task for a quiet node, and none for a busy one that reads as fast as we write.

    Acceptor ─▶ LinkSocket ─ hello, identity ─▶ Hub.open ─▶ frames in: Hub.receive, UpstreamPublisher
                                                     └──▶ send: frames out, as fast as the node reads

Without a certificate, where devices may join: ``io.identity.joining``, and never a session.

Identity is the client certificate's name and nothing else; with ``security = "insecure"`` (loopback only) it is what
the hello says.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

import msgspec
from websockets.datastructures import Headers
from websockets.http11 import Request

from fairlead_hub.delivery.opening import admission
from fairlead_hub.delivery.opening.identities import Shown
from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.hub import Hub
from fairlead_hub.io.change_traces import ChangeTraces
from fairlead_hub.io.io_counts import IoCounts
from fairlead_hub.io.link.acceptor import LinkAcceptor
from fairlead_hub.io.link.link_socket import LinkSocket
from fairlead_hub.io.messaging.table_positions import TablePositions
from fairlead_hub.io.messaging.upstream_publisher import UpstreamPublisher
from fairlead_wire import message
from fairlead_wire.errors import LocalError, Malformed, RemoteError
from fairlead_wire.io import logs, tls
from fairlead_wire.link import codec
from fairlead_wire.link.session import OPENING_SECONDS_MAX

BATCH_FRAMES = 32
"""Frames taken from a session at once; then the loop serves others."""
UNHEARD_FRAMES_MAX = 4096
"""A node that asks on and does not listen would have its answers kept in memory without end."""
DRAIN_SECONDS = 5.0
RETRY_WHEN_DRAINING_SECONDS = 1.0
RAISED_RETRY_SECONDS = 1.0
"""Until our number is raised, or a newer hub answers."""
RENEWAL_OFF_SECONDS = 3600.0
REFUSED_SECONDS = 30.0
"""When a node that cannot be served may ask again."""
ROLE_CHARS_MAX = 300
_OPENED = Request("/", Headers())
"""Stands for any opening that is over."""
_log = logs.get("hub.server")


class _OpenLink:
    """One connection with an open session."""

    __slots__ = ("aborted", "due", "goes_on", "session", "socket", "timer", "unheard")

    def __init__(self, socket: LinkSocket, session: NodeSession) -> None:
        self.socket = socket
        self.session = session
        self.timer: asyncio.TimerHandle | None = None
        self.due = 0.0
        """When the timer rings."""
        self.goes_on = False
        """The rest of its frames follows in the next turn of the loop."""
        self.unheard = 0
        """Frames it sent since it stopped reading ours."""
        self.aborted = ""
        """Why we ended it; empty while it is open or when the node did."""


class WithoutCertificate(Protocol):
    """Who speaks with devices that show no certificate: ``io.identity.joining``."""

    def greet(self, socket: LinkSocket, over: Callable[[], None]) -> None:
        """``over``: the opening is over, its slot is free."""

    def close(self) -> None: ...


class InputHandler(Protocol):
    """Messages for modules: ``io.inputs.inputs``."""

    def opened(self, session: NodeSession) -> None: ...

    def forget(self, session: NodeSession) -> None: ...

    def answered(self, session: NodeSession, header: message.FromEdge, content: bytes) -> bool:
        """False: the frame is not about them.  Raises ``Malformed``."""


class TakesReports(Protocol):
    """``io.cluster.status_reports``."""

    def accept(self, session: NodeSession, report: message.Report, content: bytes) -> None: ...


class LinkServer:
    """See the module.  ``send`` takes the sessions of a ``Ready``."""

    def __init__(
        self,
        hub: Hub,
        upstream: UpstreamPublisher,
        *,
        context: ssl.SSLContext | None,
        on_stale: Callable[[str, int], bool],
        may_send: Callable[[], bool] = lambda: True,
        is_leader: Callable[[], bool] = lambda: True,
        opening_seconds: float = OPENING_SECONDS_MAX,
        counts: IoCounts | None = None,
        traces: ChangeTraces | None = None,
        joining: WithoutCertificate | None = None,
        renewals: Callable[[NodeSession, message.Renew, bytes], None] | None = None,
        tables: TablePositions | None = None,
        inputs: InputHandler | None = None,
        reports: TakesReports | None = None,
    ) -> None:
        """``may_send`` is asked before anything is said to a node: False while we may have been replaced.

        ``on_stale`` hears which node has obeyed which higher fencing number than ours, and says whether ours is going
        to be raised.  ``is_leader``: the Lease is ours for certain, now.

        ``joining`` gets connections without a certificate, where ``context`` lets them in; ``renewals`` requests for
        certificates in sessions, None: this hub signs none.
        """
        self._joining, self._renewals = joining, renewals
        self._inputs = inputs
        self._reports = reports
        self._tables = tables if tables is not None else TablePositions(hub, None)
        self.counts = counts if counts is not None else IoCounts()
        self._traces = traces
        self._hub, self._upstream, self._context = hub, upstream, context
        self._on_stale, self._may_send, self._is_leader = on_stale, may_send, is_leader
        self._links: dict[NodeSession, _OpenLink] = {}
        self._draining = False
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time
        self._closing: set[asyncio.Task[None]] = set()
        self._acceptor = LinkAcceptor(
            self._greet,
            context=context,
            slots_max=hub.settings.link.handshakes_max,
            seconds_max=opening_seconds,
            failed=self.counts.openings_failed,
        )

    def openings(self) -> tuple[int, int]:
        """Connections being opened, and those that wait for it."""
        return self._acceptor.under_way, self._acceptor.queued

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port."""
        return await self._acceptor.start(host, port)

    async def drain(self) -> None:
        """Tell every node to come back soon, and stop."""
        self._draining = True
        self._acceptor.close()
        if self._joining is not None:
            self._joining.close()
        refusal = message.Refuse(code="draining", reason="the hub is stopping", retry_after=RETRY_WHEN_DRAINING_SECONDS)
        for link in list(self._links.values()):
            self._hub.refuse(link.session, refusal)
            self._send(link)
        if self._closing:
            await asyncio.wait(self._closing, timeout=DRAIN_SECONDS)
        for link in list(self._links.values()):
            link.socket.transport.abort()

    def fall_silent(self) -> None:
        """End every connection without a word, also what was handed over and not sent yet."""
        if self._joining is not None:
            self._joining.close()
        for link in list(self._links.values()):
            link.aborted = link.aborted or "silenced: another hub may have taken over"
            link.socket.transport.abort()

    # ---- one connection --------------------------------------------------------------------------

    def _greet(self, socket: LinkSocket) -> None:
        """The upgrade is done: what comes first must be a hello."""
        # The opening's HTTP headers are never looked at again, and ten thousand quiet nodes would keep them for days.
        socket.request, socket.response = _OPENED, None
        if self._joining is not None and not socket.transport.get_extra_info("peercert"):
            self._joining.greet(socket, partial(self._acceptor.opened, socket))
            return
        socket.on_message = partial(self._hello, socket)
        socket.on_lost = partial(self._acceptor.opened, socket)

    def _hello(self, socket: LinkSocket, frame: bytes | str) -> None:
        if not self._may_send():
            self._acceptor.opened(socket)
            socket.transport.abort()
            return
        try:
            session = self._open(socket, frame)
        except RemoteError as error:
            self.counts.broke_protocol()
            _log.warning("hello_malformed", peer=str(socket.remote_address), reason=str(error))
            session = message.Refuse(code="protocol", reason=str(error), retry_after=REFUSED_SECONDS)
        self._acceptor.opened(socket)
        if isinstance(session, message.Refuse):
            socket.on_message = _ignore
            socket.write_frames((codec.encode(session),))
            self._close(socket)
            return
        link = self._links[session] = _OpenLink(socket, session)
        socket.on_message = partial(self._receive, link)
        socket.on_room = partial(self._send, link)
        socket.on_part, socket.part_seconds = partial(self._receive_part, link), session.link.keepalive_seconds
        socket.on_lost = partial(self._forget, link)
        if self._inputs is not None:
            self._inputs.opened(session)
        _log.info("session_opened", node=session.node, session=session.number, held=session.hello.held)

    def _open(self, socket: LinkSocket, frame: bytes | str) -> NodeSession | message.Refuse:
        """Raises ``RemoteError`` on a hello that is none."""
        header, _ = codec.decode_from_edge(_binary(frame))
        if not isinstance(header, message.Hello):
            raise Malformed("the first frame must be a hello")
        node, shown, wrong = self._identity(socket, header)
        if wrong:
            return message.Refuse(code="identity", reason=wrong, retry_after=REFUSED_SECONDS)
        if self._draining:
            reason = "the hub is stopping"
            return message.Refuse(code="draining", reason=reason, retry_after=RETRY_WHEN_DRAINING_SECONDS)
        outcome = self._hub.open(node, header, self._clock(), shown)
        if isinstance(outcome, message.Refuse):
            _log.warning("session_refused", node=node, code=outcome.code, reason=outcome.reason)
            if outcome.code == admission.STALE_HUB:
                outcome = self._stale(outcome, is_raised=self._on_stale(node, header.fence))
        return outcome

    def _stale(self, refusal: message.Refuse, *, is_raised: bool) -> message.Refuse:
        """What a node hears that has obeyed a higher fencing number."""
        if not self._is_leader():  # there may be a newer hub, which the node finds, and it must not follow us
            return msgspec.structs.replace(refusal, fence=None, approved=False, retry_after=RAISED_RETRY_SECONDS)
        return msgspec.structs.replace(refusal, retry_after=RAISED_RETRY_SECONDS) if is_raised else refusal

    def _identity(self, socket: LinkSocket, hello: message.Hello) -> tuple[str, Shown | None, str]:
        """Who it is, what its certificate says of itself, and why that is no node's."""
        if self._context is None:
            return hello.node, None, ""
        # Parsed by the transport already; a kilobyte for each node, and names and times are all that is wanted of it.
        certificate = socket.transport.get_extra_info("peercert")
        name, times = tls.peer_name(certificate), tls.peer_times(certificate)
        (serial, issuer), roles = tls.peer_origin(certificate), tls.peer_roles(certificate)
        if certificate:
            certificate.clear()
        if not name or times is None:
            return "", None, "the client certificate carries no name"
        if roles and roles != [(tls.NODE_ROLE, name)]:
            # One authority may sign for all: then only this tells a node from a program that is named like it.
            role, named = roles[0]
            said = f"of {role} {named}" if role else "of none that we know"
            return "", None, f"the client certificate has the role {said[:ROLE_CHARS_MAX]}, not that of node {name}"
        return name, Shown(issued=times[0], expires=times[1], serial=serial, issuer=sys.intern(issuer)), ""

    def _receive(self, link: _OpenLink, frame: str | bytes) -> None:
        now = self._clock()
        self.counts.received(len(frame))
        link.unheard = link.unheard + 1 if link.socket.paused else 0
        try:
            if link.unheard > UNHEARD_FRAMES_MAX:
                raise Malformed(f"{UNHEARD_FRAMES_MAX} frames were sent and no answer was read")
            header, content = codec.decode_from_edge(_binary(frame))
            if isinstance(header, message.Upstream):
                if self._hub.upstream_received(link.session, header, now):
                    self._upstream.accept(link.session, header, content)
            elif isinstance(header, message.AskTables):
                if self._hub.upstream_received(link.session, header, now):
                    self._tables.ask(link.session, header)
            elif isinstance(header, message.Report):
                if self._hub.upstream_received(link.session, header, now) and self._reports is not None:
                    self._reports.accept(link.session, header, content)
            elif isinstance(header, message.Renew):
                if self._hub.renewal_received(link.session, header, now):
                    self._renew(link.session, header, content)
            elif self._inputs is not None and self._inputs.answered(link.session, header, content):
                link.session.heard(header, now)
            else:
                self._hub.receive(link.session, header, content, now)
                if self._traces is not None:
                    self._traces.answered(link.session, header)
        except RemoteError as error:
            self.counts.broke_protocol()
            link.aborted = f"malformed: {error}"
            link.socket.on_message = _ignore
            self._hub.refuse(link.session, message.Refuse(code="protocol", reason=str(error), retry_after=1.0))
            if link.socket.paused:
                link.socket.transport.abort()  # it reads nothing: a reason would not arrive
            else:
                self._send(link)

    def _renew(self, session: NodeSession, header: message.Renew, request: bytes) -> None:
        if self._renewals is not None:
            self._renewals(session, header, request)
            return
        reason = "this hub signs no certificates ([identity] signer): who issued the node's certificate renews it"
        off = message.Nack(
            parent_id=header.id, code="join_off", reason=reason, permanent=True, retry_after=RENEWAL_OFF_SECONDS
        )
        self._hub.renewal_answered(session, off)

    def _receive_part(self, link: _OpenLink) -> None:
        """A message takes long to arrive: the node is there, and hears that we are; its keepalive waits behind it."""
        may_send = not link.socket.paused and link.socket.is_open
        keepalive = self._hub.receive_part(link.session, self._clock(), may_send=may_send)
        if keepalive is not None:
            link.socket.write_frames((codec.encode(keepalive),))

    def _forget(self, link: _OpenLink) -> None:
        reason = link.aborted or ("closed" if link.socket.closed_calmly else "broken")
        self._links.pop(link.session, None)
        if link.timer is not None:
            link.timer.cancel()
        self._upstream.forget(link.session)
        self._tables.forget(link.session)
        if self._inputs is not None:
            self._inputs.forget(link.session)
        self._hub.closed(link.session, self._clock())
        if self._traces is not None:
            self._traces.closed(link.session)
        _log.info("session_closed", node=link.session.node, session=link.session.number, reason=reason)

    # ---- sending ---------------------------------------------------------------------------------

    def send(self, sessions: Iterable[NodeSession]) -> None:
        """They have frames to send."""
        for session in sessions:
            link = self._links.get(session)
            if link is not None:
                self._send(link)

    def _send(self, link: _OpenLink) -> None:
        """One batch of what the session has now; a slow reader holds up itself alone."""
        session = link.session
        if not self._may_send():
            link.socket.transport.abort()
            return
        if link.socket.paused or not link.socket.is_open:
            return  # ``on_room`` comes back here; a node that is gone has nothing to hear
        try:
            frames = self._hub.frames(session, self._clock(), BATCH_FRAMES)
            if self._traces is not None:
                frames = [self._traces.leaving(session, frame) for frame in frames]
            batch = [codec.encode(*frame) for frame in frames]
        except LocalError as error:
            # A fault of ours with one node's frame: that node comes back and compares, the others never notice.
            link.aborted = f"unsendable: {error}"
            _log.error("frame_unsendable", node=session.node, reason=str(error))
            link.socket.transport.abort()
            return
        if batch:
            self.counts.sent(batch)
            link.socket.write_frames(batch)
        if session.closing is not None:
            link.aborted = link.aborted or f"{session.closing.code}: {session.closing.reason}"
            self._close(link.socket)
            return
        if session.has_frames and not link.goes_on:
            link.goes_on = True
            self._loop.call_soon(self._go_on, link)
        self._arm(link)

    def _go_on(self, link: _OpenLink) -> None:
        link.goes_on = False
        if link.session in self._links:
            self._send(link)

    def _close(self, socket: LinkSocket) -> None:
        """Say goodbye, and wait for the answer no longer than ``acceptor.CLOSE_SECONDS``."""
        task = self._loop.create_task(socket.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # ---- time ------------------------------------------------------------------------------------

    def _arm(self, link: _OpenLink) -> None:
        due = link.session.next_tick()
        if link.timer is not None:
            # An earlier alarm re-arms itself: a frame that comes in need not touch the timer at all.
            if link.due <= due:
                return
            link.timer.cancel()
        link.due = due
        link.timer = self._loop.call_at(due, self._alarm, link)

    def _alarm(self, link: _OpenLink) -> None:
        link.timer = None
        if not self._hub.tick(link.session, self._clock()):
            link.aborted = "silent"
            link.socket.transport.abort()
            return
        self._arm(link)
        if link.session.has_frames:
            self._send(link)


def _binary(frame: str | bytes) -> bytes:
    if isinstance(frame, str):
        raise Malformed("text where a binary frame is expected")
    return frame


def _ignore(frame: str | bytes) -> None:
    """What comes after a refusal."""
