"""Keeps a session with the hub: dials, converses, and dials again after a jittered pause of about a second at most.

Link.run ── dial ──▶ Conversation ── until the session ends ─┐
    ▲                                                        │
    └──────────────── wait, jittered ◀───────────────────────┘
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, Final, Protocol

import msgspec
from websockets.asyncio.client import ClientConnection

from fairlead_edge.errors import LinkDown, StoreFailed
from fairlead_edge.io.line_meter import LineMeter
from fairlead_edge.io.link.conversation import Conversation
from fairlead_edge.io.link.dialler import Dialler, LinkUnreachable, TurnedAway
from fairlead_edge.io.link.module_inputs import InputStore
from fairlead_edge.link_state import LinkState, StaleHub
from fairlead_edge.objects import session, session_events
from fairlead_edge.objects.metastore import Metastore
from fairlead_wire import errors, message
from fairlead_wire.backoff import equal_jitter
from fairlead_wire.errors import Temporary
from fairlead_wire.io import logs, tls
from fairlead_wire.io.spans import Spans

RETRY_AFTER_SECONDS_MAX: Final = 600.0
"""The longest pause that a hub can ask for."""
CONTACT_SECONDS: Final = 10.0
"""How often the time of the last contact is written to disk."""

_log = logs.get("edge.link")


class CertificateKeeper(Protocol):
    """The link's view of the keeper of the node's certificate (``io.identity.keeper``)."""

    def dialling(self, context: ssl.SSLContext | None) -> None:
        """The next connection uses ``context``, which the keeper may change now."""

    async def remember(self, store_epoch: int, peer: Mapping[str, Any] | None) -> None:
        """A session is about to open; ``peer``: the hub's certificate."""

    def opened(self, welcome: message.Welcome, context: ssl.SSLContext | None) -> None:
        """The session is open."""

    def authorities_received(self, header: message.Authorities, content: bytes) -> None:
        """The hub sent the authorities to trust from now on."""

    def ended(self) -> None:
        """The connection has ended."""

    async def unreachable(
        self, error: LinkUnreachable, context: ssl.SSLContext | None, end: session_events.Close
    ) -> session_events.Close:
        """No connection was opened; returns the outcome to report instead of ``end``."""


class Statuses(Protocol):
    """The link's view of the sender of statuses (``io.status_sender``)."""

    @property
    def rules_digest(self) -> str:
        """The digest of the stored rules, by which the hub knows whether to send newer ones."""

    def rules_received(self, header: message.StatusRules, content: bytes) -> None:
        """The hub sent these rules."""


class Link:
    """Keeps one session with the hub.

    ``clock`` is the store's clock (seconds; survives restarts), ``random`` draws the jitter, ``client_tls`` gives each
    dial its TLS context (None: plain), ``unfit`` says what is wrong with our own certificate.  ``attempt_seconds_max``
    is the longest pause between two attempts unless the hub asks for a longer one.  ``stale_hub_seconds`` is how long
    the agent keeps refusing the hub that holds the Lease because its fencing number is lower than one seen before.
    ``meter`` counts bytes.
    """

    def __init__(
        self,
        *,
        hub_url: str,
        node: str,
        agent: str,
        store_epoch: int,
        store: Metastore,
        clock: Callable[[], float],
        random: Random,
        attempt_seconds_max: float,
        stale_hub_seconds: float,
        client_tls: tls.ClientTls | None = None,
        unfit: Callable[[], str] = lambda: "",
        spans: Spans | None = None,
        identity: CertificateKeeper | None = None,
        meter: LineMeter | None = None,
        inputs: Callable[[], InputStore] | None = None,
        statuses: Statuses | None = None,
    ) -> None:
        """``inputs`` returns the store of messages for modules; a callable, because it is made after the link."""
        self._inputs, self._statuses = inputs, statuses
        self._spans, self._identity, self._meter = spans, identity, meter
        self._unfit = unfit
        self._dialler = Dialler(hub_url, agent=agent, meter=meter)
        self._node = node
        self._agent = agent
        self._store_epoch = store_epoch
        self._store = store
        self._clock = clock
        self._random = random
        self._attempt_seconds_max = attempt_seconds_max
        self._stale_hub_seconds = stale_hub_seconds
        self._follows_at: float | None = None
        self._tls = client_tls
        self._conversation: Conversation | None = None
        self._status: message.EdgeStatus | None = None
        self._opened: list[Callable[[], None]] = []
        self._touched: float | None = None
        self._stopping = False
        self._waking = asyncio.Event()
        self.ended = asyncio.Event()
        """Set when ``run`` has returned."""
        self.state = LinkState()
        self.counters: Counter[str] = Counter()
        """Events since the start: sessions, frames and bytes each way, ends by code."""
        if meter is not None:
            meter.without_kernel(self.counters)

    @property
    def _connected(self) -> Conversation:
        if self._conversation is None:
            raise LinkDown("not connected to the hub")
        return self._conversation

    @property
    def upstream_window(self) -> int:
        """How many batches may be unanswered; 0 while no session is open."""
        return self._conversation.upstream_window if self._conversation else 0

    def on_open(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` each time a session has opened."""
        self._opened.append(listener)

    def report(self, status: message.EdgeStatus) -> None:
        """Send the agent's status to the hub, now or in the next session; an unchanged status is sent only once."""
        self._status = status
        if self._conversation:
            self._conversation.handle(session_events.StatusReported(status))

    async def send_upstream(
        self,
        stream: str,
        encoding: message.Encoding,
        content: bytes,
        *,
        topic: str = "",
        follows: bool = False,
        priority: int = 0,
        traceparent: str | None = None,
    ) -> message.Ack | message.Nack:
        """Send one batch and wait for the hub's answer.

        Batches of one priority are sent in the order of the calls; those with a lower number overtake waiting ones.
        Raises ``LinkDown`` if no session is open or it ends first; then it is unknown whether the hub took the batch.
        """
        return await self._connected.send_upstream(
            stream, encoding, content, topic=topic, follows=follows, priority=priority, traceparent=traceparent
        )

    @property
    def answers_tables(self) -> bool:
        """Whether a session is open with a hub that answers how far tables have read."""
        return self._conversation is not None and bool(self.upstream_window) and self._conversation.answers_tables

    async def ask_tables(self, topics: list[str]) -> bytes | message.Nack:
        """How far tables have read these topics (JSON array of ``message.TopicTables``).  Raises ``LinkDown``."""
        return await self._connected.ask_tables(topics)

    @property
    def takes_reports(self) -> bool:
        """Whether a session is open with a hub that accepts statuses of objects."""
        return self._conversation is not None and bool(self.upstream_window) and self._conversation.takes_reports

    async def send_report(
        self, resource: str, uid: str, force: message.Force, encoding: message.Encoding, content: bytes
    ) -> message.Ack | message.Nack:
        """Send the status of an object; returns the hub's answer.  Raises ``LinkDown``."""
        return await self._connected.send_report(resource, uid, force, encoding, content)

    async def renew(self, request: bytes) -> tuple[message.Issued | message.Nack, bytes]:
        """Request a certificate; returns the hub's answer and the content.  Raises ``LinkDown``."""
        return await self._connected.renew(request)

    async def run(self) -> None:
        """Run until cancelled, stopped, or permanently refused by the hub.

        Raises only ``StoreFailed``: any other error ends the connection, is logged and counted, and the next attempt
        follows.
        """
        try:
            self._touched = await self._store.contact_at()
            self.state = self.state.started(self._clock(), self._touched)
            while not self._stopping:
                try:
                    end = await self._attempt()
                except StoreFailed:
                    raise
                except Exception as error:  # noqa: BLE001 - logged, counted and retried: the node must keep running
                    _log.error("link_error", **logs.describe_error(error), remedy="report this bug; the agent retries")
                    end = session_events.Close(code="error", reason=errors.described(error))
                finally:
                    if self._meter is not None:
                        self._meter.end()
                self.counters[f"ended_{end.code}"] += 1
                self._note_end(end)
                if end.retry_after is None:
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._waking.wait(), self._pause(end.retry_after))
                if not self._stopping:
                    self._waking.clear()
        finally:
            self.ended.set()

    def compare_again(self, reason: str) -> None:
        """End the session because stored objects were lost; the next one begins with a comparison."""
        if self._conversation:
            self._conversation.end(session_events.Close(code="compare_again", reason=reason))

    def certificate_replaced(self) -> None:
        """End a pause and dial at once: with the new certificate the hub may answer differently."""
        if self._conversation is None:
            self._waking.set()

    def stop(self) -> None:
        """Say goodbye to the hub and let ``run`` end; a dial that is under way is not interrupted."""
        self._stopping = True
        self._waking.set()
        if self._conversation:
            self._conversation.end(
                session_events.Close(code="stopping", reason="the edge agent is stopping", retry_after=None)
            )

    def _note_end(self, end: session_events.Close) -> None:
        repeated = self.state.reason == end.reason and self.state.state == "connecting"
        self.state = self.state.ended(
            end.reason, self._clock(), dials_again=end.retry_after is not None, follows_at=self._follows_at
        )
        if not repeated and not self._stopping:  # an unreachable hub is logged once, not every second
            _log.warning("link_down", code=end.code, reason=end.reason, retry_after=end.retry_after)

    def _pause(self, asked: float) -> float:
        longest = self._attempt_seconds_max
        jittered = equal_jitter(longest, self._random.random())
        if asked <= longest:
            return max(asked, jittered)
        # Not before the requested time, and spread out, so that not all nodes come back at the same moment.
        return min(asked, RETRY_AFTER_SECONDS_MAX) + jittered

    async def _attempt(self) -> session_events.Close:
        self._follows_at = None
        context = self._tls.context() if self._tls is not None else None
        if self._identity is not None:
            self._identity.dialling(context)
        try:
            connection = await self._dialler.connect(context)
        except TurnedAway as error:
            return session_events.Close(code="turned_away", reason=str(error), retry_after=error.retry_after)
        except LinkUnreachable as error:
            end = self._describe(error)
            return end if self._identity is None else await self._identity.unreachable(error, context, end)
        try:
            return await self._converse(connection, context)
        except Temporary as error:  # the fence could not be written, so this hub must not be obeyed yet
            return session_events.Close(
                code="store_busy", reason=str(error), retry_after=error.retry_after_seconds or 0.0
            )
        finally:
            connection.transport.abort()

    def _describe(self, error: LinkUnreachable) -> session_events.Close:
        """The outcome of a failed dial; a certificate's fault takes precedence."""
        refused, unfit = error.refused, self._unfit() if self._tls is not None else ""
        if refused is not None and not refused.ours:
            return session_events.Close(code="certificate", reason=str(error))
        if refused is not None or (unfit and error.hung_up):
            said = str(error) if refused is not None else "the hub closed the connection without an answer"
            return session_events.Close(code="certificate", reason=f"{said}; {unfit}" if unfit else said)
        return session_events.Close(code="unreachable", reason=str(error))

    async def _converse(self, connection: ClientConnection, context: ssl.SSLContext | None) -> session_events.Close:
        now, fence = asyncio.get_running_loop().time(), await self._store.fence()
        core = session.EdgeSession(
            node=self._node,
            agent=self._agent,
            store_epoch=self._store_epoch,
            fence=fence,
            now=now,
            status_rules=self._statuses.rules_digest if self._statuses is not None else "",
        )
        identity = self._identity
        peer = connection.transport.get_extra_info("peercert")
        conversation = Conversation(
            connection,
            core,
            self._store,
            self._clock,
            self.counters,
            partial(self._session_opened, context),
            self._spans,
            partial(identity.remember, self._store_epoch, peer) if identity is not None else None,
            identity.authorities_received if identity is not None else None,
            self._inputs() if self._inputs is not None else None,
            self._statuses.rules_received if self._statuses is not None else None,
        )
        self._conversation = conversation
        contact = asyncio.create_task(self._keep_contact(conversation))
        try:
            if self._status is not None:
                conversation.handle(session_events.StatusReported(self._status))
            end = await conversation.run()
            if end.fence is not None and end.fence < fence and conversation.last_heard() is None:
                end = await self._refused(fence, end, end.fence)
        finally:
            self._conversation = None
            if identity is not None:
                identity.ended()
            contact.cancel()
            self._update_contact(conversation)
        await self._touch()
        return end

    async def _refused(self, obeyed: int, end: session_events.Close, fence: int) -> session_events.Close:
        """The hub that holds the Lease has ``fence``, a lower fencing number than ``obeyed``, which was seen before.

        After ``stale_hub_seconds``, or at once if a person approved it, the lower number is accepted and the next hello
        names it.
        """
        before, now = await self._store.stale_hub(), self._clock()
        found = StaleHub.refused(before, fence, now)
        lower = fence if end.approved else found.lower(now, self._stale_hub_seconds)
        if lower is not None:
            reason = "a person approved it" if end.approved else "no hub has used the higher number for a long time"
            await self._store.lower_fence(lower)
            self.counters["fences_given_up"] += 1
            _log.warning("fence_given_up", obeyed=obeyed, fence=lower, reason=reason)
            return msgspec.structs.replace(end, retry_after=0.0)
        if found != before:
            await self._store.persist_stale_hub(found)
        self._follows_at = found.since + self._stale_hub_seconds
        return end

    def _session_opened(self, context: ssl.SSLContext | None, welcome: message.Welcome) -> None:
        self.counters["sessions"] += 1
        self.state = self.state.opened(hub=welcome.hub, fence=welcome.fence, now=self._clock())
        _log.info("link_up", hub=welcome.hub, fence=welcome.fence, session=welcome.session)
        if self._identity is not None:
            self._identity.opened(welcome, context)
        for listener in self._opened:
            listener()

    def last_contact(self) -> float | None:
        """When the last frame of an open session arrived, in seconds of the store's clock; None: never."""
        if self._conversation:
            self._update_contact(self._conversation)
        return self.state.last_contact

    def _update_contact(self, conversation: Conversation) -> None:
        self.state = self.state.with_contact(conversation.last_heard())

    async def _keep_contact(self, conversation: Conversation) -> None:
        with contextlib.suppress(StoreFailed):  # the next write raises it again
            while True:
                await asyncio.sleep(CONTACT_SECONDS)
                self._update_contact(conversation)
                await self._touch()

    async def write_contact(self) -> None:
        """Write the time of the last contact to disk, after ``run`` has ended.

        ``run`` does this, too, but is cancelled if the goodbye takes too long.
        """
        with contextlib.suppress(StoreFailed):  # the first call that failed has raised it
            await self._touch()

    async def _touch(self) -> None:
        contact = self.state.last_contact
        if contact is not None and contact != self._touched:
            with contextlib.suppress(Temporary):  # on a full disk, the age of copies is understated after a restart
                await self._store.touch(contact)
            self._touched = contact
