"""The server that nodes connect to: no task or timer for a quiet node, nor for a busy one that reads promptly.

    Acceptor ─▶ LinkSocket ─ hello, identity ─▶ hub.sessions.open
         │ frames in ─▶ hub.sessions.receive ─▶ frames for a service ─▶ ``_services``, by type
         └ room ──────▶ hub.sessions.room
    Ready.sessions ─send─▶ frames out, connections closed

Connections without a certificate go to ``io.identity.joining``, if devices may join, and never become sessions.

The identity is the client certificate's name; with ``security = "insecure"`` (loopback only) it is the name in the
hello.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

import msgspec
from websockets.datastructures import Headers
from websockets.http11 import Request

from fairlead_hub.delivery import admission
from fairlead_hub.delivery.identities import NodeCertificate
from fairlead_hub.hub import Hub
from fairlead_hub.io.change_traces import ChangeTraces
from fairlead_hub.io.io_counts import IoCounts
from fairlead_hub.io.link.acceptor import LinkAcceptor, LinkSocket
from fairlead_hub.io.messaging.table_positions import TablePositions
from fairlead_hub.io.messaging.upstream_publisher import UpstreamPublisher
from fairlead_hub.ready import SILENT, SessionOutput
from fairlead_hub.session_ref import SessionRef
from fairlead_wire import message
from fairlead_wire.errors import LocalError, Malformed, RemoteError
from fairlead_wire.io import logs, tls
from fairlead_wire.link import codec
from fairlead_wire.link.session import OPENING_SECONDS_MAX

UNHEARD_FRAMES_MAX = 4096
"""A node that keeps asking and does not read would have its answers pile up in memory."""
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

    __slots__ = ("aborted", "session", "socket", "tells", "unheard")

    def __init__(self, socket: LinkSocket, session: SessionRef) -> None:
        self.socket = socket
        self.session = session
        self.tells = False
        """The core is told in the next turn of the loop whether there is room."""
        self.unheard = 0
        """Frames it sent since it stopped reading ours."""
        self.aborted = ""
        """Why we aborted it; empty while it is open, or if the node closed it."""


class WithoutCertificate(Protocol):
    """Handles connections without a certificate: ``io.identity.joining``."""

    def greet(self, socket: LinkSocket, over: Callable[[], None]) -> None:
        """``over``: the opening is over, its slot is free."""

    def close(self) -> None: ...


class InputHandler(Protocol):
    """Messages for modules: ``io.inputs.inputs``."""

    def opened(self, session: SessionRef) -> None: ...

    def forget(self, session: SessionRef) -> None: ...

    def received_states(self, session: SessionRef, header: message.InputStates, content: bytes) -> None:
        """Raises ``Malformed``."""

    def answered(self, session: SessionRef, header: message.Ack | message.Nack, content: bytes) -> None: ...


class TakesReports(Protocol):
    """``io.cluster.status_reports``."""

    def accept(self, session: SessionRef, report: message.Report, content: bytes) -> None: ...


Service = Callable[[SessionRef, Any, bytes], None]
"""Answers a frame later, with ``hub.sessions.say``.  Raises ``Malformed``."""


class LinkServer:
    """See the module docstring.  ``send`` takes the sessions of a ``Ready``."""

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
        renewals: Service | None = None,
        tables: TablePositions | None = None,
        inputs: InputHandler | None = None,
        reports: TakesReports | None = None,
    ) -> None:
        """``may_send`` is called before anything is sent to a node: False while we may have been replaced.

        ``on_stale`` is told which node has obeyed which fencing number above ours, and returns whether ours is going to
        be raised.  ``is_leader``: whether the Lease is certainly ours now.

        ``joining`` gets connections without a certificate if ``context`` admits them; ``renewals`` gets requests for
        certificates in sessions, or is None if this hub signs none.
        """
        self._joining, self._inputs = joining, inputs
        self._tables = tables if tables is not None else TablePositions(hub, None)
        self._services: Mapping[type[message.FromEdge], Service] = {
            message.Upstream: upstream.accept,
            message.AskTables: self._tables.accept,
            message.Renew: renewals if renewals is not None else self._renewals_off,
            **({message.Report: reports.accept} if reports is not None else {}),
            **({message.InputStates: inputs.received_states} if inputs is not None else {}),
            **(dict.fromkeys((message.Ack, message.Nack), inputs.answered) if inputs is not None else {}),
        }
        self.counts = counts if counts is not None else IoCounts()
        self._traces = traces
        self._hub, self._upstream, self._context = hub, upstream, context
        self._on_stale, self._may_send, self._is_leader = on_stale, may_send, is_leader
        self._links: dict[SessionRef, _OpenLink] = {}
        self._link_lost = asyncio.Event()
        self._draining = False
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time
        self._closing: set[asyncio.Task[None]] = set()
        self._acceptor = LinkAcceptor(
            self._greet,
            context=context,
            slots_max=hub.view.settings.link.handshakes_max,
            seconds_max=opening_seconds,
            failed=self.counts.openings_failed,
        )

    def openings(self) -> tuple[int, int]:
        """Connections being opened, and those that wait to be opened."""
        return self._acceptor.under_way, self._acceptor.queued

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port."""
        return await self._acceptor.start(host, port)

    async def drain(self) -> None:
        """Tell every node to reconnect soon, and stop."""
        self._draining = True
        self._acceptor.close()
        if self._joining is not None:
            self._joining.close()
        refusal = message.Refuse(code="draining", reason="the hub is stopping", retry_after=RETRY_WHEN_DRAINING_SECONDS)
        for link in self._links.values():
            self._hub.sessions.refuse(link.session, refusal)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                # A node that does not read would not receive it either.
                while any(not link.socket.paused for link in self._links.values()):
                    self._link_lost.clear()
                    await self._link_lost.wait()
                if self._closing:
                    await asyncio.wait(self._closing)
        for link in list(self._links.values()):
            link.socket.transport.abort()

    def abort_all(self) -> None:
        """Abort every connection without a message, including frames that were written and not sent yet."""
        if self._joining is not None:
            self._joining.close()
        for link in list(self._links.values()):
            link.aborted = link.aborted or "silenced: another hub may have taken over"
            link.socket.transport.abort()

    # ---- one connection --------------------------------------------------------------------------

    def _greet(self, socket: LinkSocket) -> None:
        """The upgrade is done: the first frame must be a hello."""
        # The HTTP headers are not needed any more, and ten thousand quiet nodes would keep them for days.
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
        held = 0
        try:
            session, held = self._open(socket, frame)
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
        socket.on_room = partial(self._room_changed, link)
        socket.on_part = partial(self._receive_part, link)
        socket.part_seconds = self._hub.view.settings.link.keepalive_seconds
        socket.on_lost = partial(self._forget, link)
        if self._inputs is not None:
            self._inputs.opened(session)
        _log.info("session_opened", node=session.node, session=session.number, held=held)

    def _open(self, socket: LinkSocket, frame: bytes | str) -> tuple[SessionRef | message.Refuse, int]:
        """Also returns the number of objects the node says it holds.  Raises ``RemoteError`` for an invalid hello."""
        header, _ = codec.decode_from_edge(_binary(frame))
        if not isinstance(header, message.Hello):
            raise Malformed("the first frame must be a hello")
        node, shown, wrong = self._identity(socket, header)
        if wrong:
            return message.Refuse(code="identity", reason=wrong, retry_after=REFUSED_SECONDS), 0
        if self._draining:
            reason = "the hub is stopping"
            return message.Refuse(code="draining", reason=reason, retry_after=RETRY_WHEN_DRAINING_SECONDS), 0
        outcome = self._hub.sessions.open(node, header, self._clock(), shown)
        if isinstance(outcome, message.Refuse):
            _log.warning("session_refused", node=node, code=outcome.code, reason=outcome.reason)
            if outcome.code == admission.STALE_HUB:
                outcome = self._stale(outcome, is_raised=self._on_stale(node, header.fence))
        return outcome, int(header.held)

    def _stale(self, refusal: message.Refuse, *, is_raised: bool) -> message.Refuse:
        """The refusal for a node that has obeyed a higher fencing number."""
        if not self._is_leader():  # there may be a newer hub for the node to find, and it must not follow us
            return msgspec.structs.replace(refusal, fence=None, approved=False, retry_after=RAISED_RETRY_SECONDS)
        return msgspec.structs.replace(refusal, retry_after=RAISED_RETRY_SECONDS) if is_raised else refusal

    def _identity(self, socket: LinkSocket, hello: message.Hello) -> tuple[str, NodeCertificate | None, str]:
        """The node's name, the data of its certificate, and why that is not a node's certificate."""
        if self._context is None:
            return hello.node, None, ""
        # The transport has parsed it already; it takes a kilobyte per node, and only names and times are needed.
        certificate = socket.transport.get_extra_info("peercert")
        name, times = tls.peer_name(certificate), tls.peer_times(certificate)
        (serial, issuer), roles = tls.peer_origin(certificate), tls.peer_roles(certificate)
        if certificate:
            certificate.clear()
        if not name or times is None:
            return "", None, "the client certificate contains no name"
        if roles and roles != [(tls.NODE_ROLE, name)]:
            # One authority may sign for all: then only the role distinguishes a node from a program with its name.
            role, named = roles[0]
            said = f"of {role} {named}" if role else "of none that we know"
            return "", None, f"the client certificate has the role {said[:ROLE_CHARS_MAX]}, not that of node {name}"
        return name, NodeCertificate(issued=times[0], expires=times[1], serial=serial, issuer=sys.intern(issuer)), ""

    def _receive(self, link: _OpenLink, frame: str | bytes) -> None:
        self.counts.received(len(frame))
        link.unheard = link.unheard + 1 if link.socket.paused else 0
        try:
            if link.unheard > UNHEARD_FRAMES_MAX:
                raise Malformed(f"the node sent {UNHEARD_FRAMES_MAX} frames without reading an answer")
            header, content = codec.decode_from_edge(_binary(frame))
            asked = self._hub.sessions.receive(link.session, header, content, self._clock())
            if asked is not None:
                service = self._services.get(type(asked))
                if service is None:
                    raise Malformed(f"{type(asked).__name__.lower()} is not for this hub")
                service(link.session, asked, content)
            elif self._traces is not None:
                self._traces.answered(link.session, header)
        except RemoteError as error:
            self.counts.broke_protocol()
            link.aborted = f"malformed: {error}"
            link.socket.on_message = _ignore
            refusal = message.Refuse(code="protocol", reason=str(error), retry_after=1.0)
            self._hub.sessions.refuse(link.session, refusal)
            if link.socket.paused:
                link.socket.transport.abort()  # it reads nothing: a reason would not arrive

    def _renewals_off(self, session: SessionRef, header: message.Renew, request: bytes) -> None:
        reason = "this hub signs no certificates ([identity] signer): renew the node's certificate where it was issued"
        off = message.Nack(
            parent_id=header.id, code="join_off", reason=reason, permanent=True, retry_after=RENEWAL_OFF_SECONDS
        )
        self._hub.sessions.say(session, off)

    def _receive_part(self, link: _OpenLink) -> None:
        self._hub.sessions.receive_part(link.session, self._clock())

    def _room_changed(self, link: _OpenLink) -> None:
        """May be called in the middle of ``send``: the core is told when that is over."""
        if not link.tells:
            link.tells = True
            self._loop.call_soon(self._report_room, link)

    def _report_room(self, link: _OpenLink) -> None:
        link.tells = False
        self._hub.sessions.room(link.session, not link.socket.paused)

    def _forget(self, link: _OpenLink) -> None:
        reason = link.aborted or ("closed" if link.socket.closed_normally else "broken")
        self._links.pop(link.session, None)
        self._link_lost.set()
        self._upstream.forget(link.session)
        self._tables.forget(link.session)
        if self._inputs is not None:
            self._inputs.forget(link.session)
        self._hub.sessions.closed(link.session, self._clock())
        if self._traces is not None:
            self._traces.closed(link.session)
        _log.info("session_closed", node=link.session.node, session=link.session.number, reason=reason)

    # ---- sending ---------------------------------------------------------------------------------

    def send(self, outputs: Iterable[SessionOutput]) -> None:
        """Write what goes out, and close what is over.  Nothing here calls the core."""
        may_send = self._may_send()
        for output in outputs:
            link = self._links.get(output.session)
            if link is None:
                continue  # its connection is closed
            if not may_send:
                link.socket.transport.abort()
            elif output.cut:
                self._cut(link, output.cut)
            else:
                self._write(link, output)

    def _write(self, link: _OpenLink, output: SessionOutput) -> None:
        frames = output.frames
        try:
            if self._traces is not None:
                frames = [self._traces.leaving(link.session, frame) for frame in frames]
            batch = [codec.encode(*frame) for frame in frames]
        except LocalError as error:
            # This is a defect of ours that affects one node: it reconnects and is compared; the others are not
            # affected.
            self._cut(link, f"unsendable: {error}")
            return
        if batch:
            self.counts.sent(batch)
            link.socket.write_frames(batch)
        if output.closing is not None:
            link.aborted = link.aborted or f"{output.closing.code}: {output.closing.reason}"
            self._close(link.socket)

    def _cut(self, link: _OpenLink, reason: str) -> None:
        link.aborted = reason
        if reason != SILENT:
            _log.error("frame_unsendable", node=link.session.node, reason=reason)
        link.socket.transport.abort()

    def _close(self, socket: LinkSocket) -> None:
        """Send a close frame, and wait at most ``acceptor.CLOSE_SECONDS`` for the answer."""
        task = self._loop.create_task(socket.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _binary(frame: str | bytes) -> bytes:
    if isinstance(frame, str):
        raise Malformed("text where a binary frame is expected")
    return frame


def _ignore(frame: str | bytes) -> None:
    """Ignore frames after a refusal."""
