"""The conversation with a device without certificate: it may ask who we are, join, or renew late, and nothing else.

    upgrade, no certificate ─▶ agreed on ``fairlead-join/1``? ▸ fewer than ``CONVERSATIONS_MAX``? ─▶ frames, one by one
                                       └─ no, or any other frame ─▶ refused with code ``identity``, closed

It has its own deadline and never becomes a session: it reaches the hub's core only through the services' decisions.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

import msgspec

from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_hub.identity.signer import SignedCertificate
from fairlead_hub.io.identity.join_service import JoinService
from fairlead_hub.io.link.acceptor import LinkSocket
from fairlead_wire import errors, message
from fairlead_wire.errors import Malformed, RemoteError
from fairlead_wire.identity import join_token
from fairlead_wire.io import logs, tls
from fairlead_wire.io.tls import RFC_3339
from fairlead_wire.link import codec

CONVERSATIONS_MAX: Final = 16
SECONDS_MAX: Final = 60.0
"""Time limit of a conversation; an external issuer may take a while."""
IDLE_SECONDS: Final = 10.0
"""Time limit without a frame, while none is being answered."""
QUIET_SECONDS: Final = 2.0
"""If all conversations are taken, one that has been idle for this long is closed to make room."""
FRAMES_MAX: Final = 8
FRAME_BYTES_MAX: Final = 128 * 1024
BUSY_RETRY_SECONDS: Final = 5.0
FAILED_RETRY_SECONDS: Final = 10.0
_encoder = msgspec.json.Encoder()
_log = logs.get("hub.joining")


class LateRenewals(Protocol):
    """Late renewal: a device whose certificate expired proves that it has the key."""

    async def challenge(self, header: message.Late, peer: str) -> tuple[message.Challenge, Any]:
        """The challenge, and the state to pass to ``prove`` in the same conversation.  Raises ``IdentityRefused``."""

    async def prove(self, begun: Any, content: bytes, peer: str) -> SignedCertificate:
        """Verify the proof and issue a certificate.  Raises ``IdentityRefused``."""


class _Conversation:
    """One connection."""

    __slots__ = ("address", "begun", "frames", "peer", "since", "socket", "task", "timer", "until")

    def __init__(self, socket: LinkSocket, until: float) -> None:
        self.socket, self.until, self.frames = socket, until, 0
        self.address, self.peer = _peer(socket)
        self.since = 0.0
        """When it began to wait for a frame."""
        self.timer: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None
        self.begun: Any = None
        """The challenge sent to a device that renews late."""


class JoinServer:
    """``greet`` receives each connection without a certificate.

    ``roots`` is the PEM of the hub's own authorities, ``issuers`` of those of nodes.
    """

    def __init__(
        self,
        join: JoinService,
        *,
        roots: Callable[[], bytes],
        issuers: Callable[[], bytes],
        may_send: Callable[[], bool],
        late: LateRenewals | None = None,
        refused: Callable[[message.Refuse, str], None] = lambda refusal, peer: None,
    ) -> None:
        """``refused`` receives refusals made here, with the peer; the services report their own."""
        self._refused = refused
        self._join, self._roots, self._issuers, self._may_send, self._late = join, roots, issuers, may_send, late
        self._loop = asyncio.get_running_loop()
        self._open: set[_Conversation] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def greet(self, socket: LinkSocket, over: Callable[[], None]) -> None:
        """``over`` is called immediately: devices do not occupy the handshake slot of a node."""
        over()
        # Messages of a device are short; a longer one ends the connection while it arrives.
        socket.protocol.max_message_size = FRAME_BYTES_MAX
        socket.on_message = _ignore
        if not self._may_send():
            socket.transport.abort()
            return
        if tls.negotiated_protocol(socket.transport.get_extra_info("ssl_object")) != join_token.ALPN:
            reason = (
                f"no certificate was presented; without one only {join_token.ALPN} is supported (fairlead edge join)"
            )
            self._refuse_connection(socket, "identity", reason)
            return
        conversation = _Conversation(socket, self._loop.time() + SECONDS_MAX)
        if len(self._open) >= CONVERSATIONS_MAX and not self._make_room(conversation.address):
            reason = f"{CONVERSATIONS_MAX} devices are joining at the moment: try again"
            self._refuse_connection(socket, "too_many", reason, BUSY_RETRY_SECONDS)
            return
        self._open.add(conversation)
        socket.on_message = functools.partial(self._receive, conversation)
        socket.on_lost = functools.partial(self._lost, conversation)
        self._wait(conversation)

    def close(self) -> None:
        """End all conversations without a message."""
        for conversation in list(self._open):
            conversation.socket.transport.abort()

    def _make_room(self, address: str) -> bool:
        """Close an idle conversation: one that was silent for long, or whose address has more than its share."""
        now, of = self._loop.time(), Counter(each.address for each in self._open)
        waiting = [each for each in self._open if each.task is None]
        # Between challenge and proof a slow device starts a process that signs, which takes a while.
        quiet = [each for each in waiting if each.begun is None and now - each.since >= QUIET_SECONDS]
        found = quiet or [each for each in waiting if of[each.address] > of[address] + 1]
        if not found:
            return False
        ended = min(found, key=lambda each: (-of[each.address], each.since))
        self._open.discard(ended)
        ended.socket.on_message = _ignore
        ended.socket.transport.abort()
        return True

    # ---- one conversation ------------------------------------------------------------------------

    def _receive(self, conversation: _Conversation, frame: bytes | str) -> None:
        conversation.frames += 1
        try:
            if isinstance(frame, str):
                raise Malformed("text where a binary frame is expected")
            if conversation.task is not None:
                raise Malformed("a frame arrived before the previous one was answered")
            if conversation.frames > FRAMES_MAX:
                raise Malformed(f"more than {FRAMES_MAX} frames")
            header, content = codec.decode_from_device(frame)
        except RemoteError as error:
            reason = f"a device without a certificate may only join: {error}"
            conversation.socket.on_message = _ignore
            self._refuse_connection(conversation.socket, "identity", reason)
            return
        if isinstance(header, message.AskAuthorities):
            try:
                self._answer(conversation, message.Authorities(), self._roots())
            except OSError as error:
                self._refuse(conversation, self._failed(conversation, error).frame())
            else:
                self._wait(conversation)
            return
        conversation.task = self._run(self._serve(conversation, header, content))
        self._wait(conversation)

    async def _serve(
        self, conversation: _Conversation, header: message.Join | message.Late | message.Prove, content: bytes
    ) -> None:
        try:
            match header:
                case message.Join():
                    issued = await self._join.join(header, content, conversation.peer)
                case message.Late():
                    challenge, conversation.begun = await self._late_renewals().challenge(header, conversation.peer)
                    self._answer(conversation, challenge, b"")
                    conversation.task = None
                    self._wait(conversation)
                    return
                case _:
                    if conversation.begun is None:
                        raise IdentityRefused("identity", "there is no challenge that this proof could answer")
                    begun, conversation.begun = conversation.begun, None
                    issued = await self._late_renewals().prove(begun, content, conversation.peer)
            answer = self._issued(issued)
        except IdentityRefused as error:
            self._refuse(conversation, error.frame())
        except (OSError, ValueError) as error:
            self._refuse(conversation, self._failed(conversation, error).frame())
        else:
            self._answer(conversation, *answer)
            self._close(conversation.socket)

    def _failed(self, conversation: _Conversation, error: OSError | ValueError) -> IdentityRefused:
        """The hub cannot read one of its files or the signer's answer: the device may repeat the request."""
        _log.error("joining_failed", peer=conversation.peer, reason=errors.described(error))
        reason = "the hub cannot read a certificate of its own: see its log"
        return IdentityRefused("signer_unavailable", reason, retry_after=FAILED_RETRY_SECONDS)

    def _late_renewals(self) -> LateRenewals:
        if self._late is None:
            raise IdentityRefused("late_off", "late renewal is off here: join again with a token")
        return self._late

    def _issued(self, issued: SignedCertificate) -> tuple[message.Issued, bytes]:
        header = message.Issued(node=issued.node, expires=issued.not_after.strftime(RFC_3339))
        found = message.IssuedCertificates(
            certificates=issued.chain.decode(),
            authorities=self._roots().decode(),
            issuers=self._issuers().decode(),
        )
        return header, _encoder.encode(found)

    def _wait(self, conversation: _Conversation) -> None:
        if conversation.timer is not None:
            conversation.timer.cancel()
        conversation.since = self._loop.time()
        due = conversation.until if conversation.task is not None else self._loop.time() + IDLE_SECONDS
        conversation.timer = self._loop.call_at(min(due, conversation.until), self._give_up, conversation)

    def _give_up(self, conversation: _Conversation) -> None:
        _log.info("joining_ended", peer=conversation.peer, reason="the device was silent, or the signer too slow")
        conversation.socket.transport.abort()

    def _lost(self, conversation: _Conversation) -> None:
        self._open.discard(conversation)
        if conversation.timer is not None:
            conversation.timer.cancel()
        # Work in progress continues: a recorded use is signed, and the device gets the certificate when it asks again.

    def _refuse(self, conversation: _Conversation, refusal: message.Refuse) -> None:
        conversation.socket.on_message = _ignore
        self._end(conversation.socket, refusal)

    def _refuse_connection(self, socket: LinkSocket, code: str, reason: str, retry_after: float | None = None) -> None:
        refusal = message.Refuse(code=code, reason=reason, retry_after=retry_after)
        self._refused(refusal, _peer(socket)[1])
        self._end(socket, refusal)

    def _end(self, socket: LinkSocket, refusal: message.Refuse) -> None:
        if self._may_send():
            socket.write_frames((codec.encode(refusal),))
        self._close(socket)

    def _answer(self, conversation: _Conversation, header: message.ToDevice, content: bytes) -> None:
        if not self._may_send():
            conversation.socket.transport.abort()
            return
        conversation.socket.write_frames((codec.encode(header, content),))

    def _close(self, socket: LinkSocket) -> None:
        self._run(socket.close())

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run to completion, even if its connection closes."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _peer(socket: LinkSocket) -> tuple[str, str]:
    """Its address, and its address with port."""
    found = socket.transport.get_extra_info("peername")
    return (str(found[0]), f"{found[0]}:{found[1]}") if found else ("", "")


def _ignore(frame: str | bytes) -> None:
    """Ignore frames after a refusal."""
