"""The connection to the hub: dials, converses, and dials again, at most about a second apart.

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
"""A hub that asks for more is asked again after this."""
CONTACT_SECONDS: Final = 10.0
"""How often the time of the last contact is written down."""

_log = logs.get("edge.link")


class CertificateKeeper(Protocol):
    """What the link reports to the keeper of the node's certificate, and asks it."""

    def dialling(self, context: ssl.SSLContext | None) -> None:
        """The next connection uses this context, which may be changed now."""

    async def remember(self, store_epoch: int, peer: Mapping[str, Any] | None) -> None:
        """A session is about to be open; ``peer``: the hub's certificate."""

    def opened(self, welcome: message.Welcome, context: ssl.SSLContext | None) -> None:
        """The session is open."""

    def authorities_received(self, header: message.Authorities, content: bytes) -> None:
        """The hub sent the authorities to trust from now on."""

    def ended(self) -> None:
        """The connection is over."""

    async def unreachable(
        self, error: LinkUnreachable, context: ssl.SSLContext | None, end: session_events.Close
    ) -> session_events.Close:
        """No connection was opened, which would be reported as ``end``; returns the end to report."""


class Statuses(Protocol):
    """What the link reports to the sender of statuses, and asks it."""

    @property
    def rules_digest(self) -> str:
        """Digest of the rules that are held; the hub sends newer ones."""

    def rules_received(self, header: message.StatusRules, content: bytes) -> None:
        """The rules from now on."""


class Link:
    """Keeps one session with the hub.

    ``clock`` is the store's clock (seconds; survives restarts), ``random`` draws the jitter, ``client_tls`` gives each
    dial its TLS context (None: plain), ``unfit`` says what is wrong with our own certificate.  ``attempt_seconds_max``
    is the longest pause between two attempts unless the hub asked for a longer one; ``stale_hub_seconds`` is how long a
    higher fencing number is kept than that of the hub that holds the Lease.  ``meter`` counts what it carries.
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
        """``inputs`` gives what stores messages for modules; it is made after the link."""
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
        """Batches that may be unanswered at once; 0 while no session is open."""
        return self._conversation.upstream_window if self._conversation else 0

    def on_open(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` each time a session has opened."""
        self._opened.append(listener)

    def report(self, status: message.EdgeStatus) -> None:
        """Send the agent's status to the hub, now or when it is back; the same status is sent once."""
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
        """Send one batch and wait for the hub's answer; calls of one priority leave in the order they were made, and
        what waits to leave is overtaken by lower numbers.

        Raises ``LinkDown`` when no session is open or it ends first: whether the hub took it is then unknown.
        """
        return await self._connected.send_upstream(
            stream, encoding, content, topic=topic, follows=follows, priority=priority, traceparent=traceparent
        )

    @property
    def answers_tables(self) -> bool:
        """A session is open whose hub says how far tables have read."""
        return self._conversation is not None and bool(self.upstream_window) and self._conversation.answers_tables

    async def ask_tables(self, topics: list[str]) -> bytes | message.Nack:
        """How far tables have read these topics (JSON array of ``message.TopicTables``).  Raises ``LinkDown``."""
        return await self._connected.ask_tables(topics)

    @property
    def takes_reports(self) -> bool:
        """A session is open whose hub takes status of objects."""
        return self._conversation is not None and bool(self.upstream_window) and self._conversation.takes_reports

    async def send_report(
        self, resource: str, uid: str, force: message.Force, encoding: message.Encoding, content: bytes
    ) -> message.Ack | message.Nack:
        """Send the status of an object; the hub's answer.  Raises ``LinkDown``."""
        return await self._connected.send_report(resource, uid, force, encoding, content)

    async def renew(self, request: bytes) -> tuple[message.Issued | message.Nack, bytes]:
        """Ask the hub for a certificate; its answer and the content.  Raises ``LinkDown``."""
        return await self._connected.renew(request)

    async def run(self) -> None:
        """Until cancelled, or until the hub says not to come back.

        Raises ``StoreFailed`` alone: whatever else goes wrong with a connection ends that connection, has a name and
        a count, and the next attempt follows.
        """
        try:
            self._touched = await self._store.contact_at()
            self.state = self.state.started(self._clock(), self._touched)
            while not self._stopping:
                try:
                    end = await self._attempt()
                except StoreFailed:
                    raise
                except Exception as error:  # noqa: BLE001 - named, counted, and tried again: the node must go on
                    _log.error("link_error", **logs.describe_error(error), remedy="report it; the agent dials again")
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
        """Less is held than the hub knows: end the session, for the next one opens with what is held."""
        if self._conversation:
            self._conversation.end(session_events.Close(code="compare_again", reason=reason))

    def certificate_replaced(self) -> None:
        """Dial at once if a pause is under way: with the new certificate the hub may answer differently."""
        if self._conversation is None:
            self._waking.set()

    def stop(self) -> None:
        """Say goodbye to the hub and let ``run`` end; an attempt that is under way may still take its time."""
        self._stopping = True
        self._waking.set()
        if self._conversation:
            self._conversation.end(
                session_events.Close(code="stopping", reason="the edge agent stops", retry_after=None)
            )

    def _note_end(self, end: session_events.Close) -> None:
        repeated = self.state.reason == end.reason and self.state.state == "connecting"
        self.state = self.state.ended(
            end.reason, self._clock(), dials_again=end.retry_after is not None, follows_at=self._follows_at
        )
        if not repeated and not self._stopping:  # a hub that is away is reported once, not every second
            _log.warning("link_down", code=end.code, reason=end.reason, retry_after=end.retry_after)

    def _pause(self, asked: float) -> float:
        longest = self._attempt_seconds_max
        jittered = equal_jitter(longest, self._random.random())
        if asked <= longest:
            return max(asked, jittered)
        # Never before the time asked for, and not all at that very moment.
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
        except Temporary as error:  # the fence could not be written down, so this hub may not be obeyed yet
            return session_events.Close(
                code="store_busy", reason=str(error), retry_after=error.retry_after_seconds or 0.0
            )
        finally:
            connection.transport.abort()

    def _describe(self, error: LinkUnreachable) -> session_events.Close:
        """A certificate's fault before all others."""
        refused, unfit = error.refused, self._unfit() if self._tls is not None else ""
        if refused is not None and not refused.ours:
            return session_events.Close(code="certificate", reason=str(error))
        if refused is not None or (unfit and error.hung_up):
            said = str(error) if refused is not None else "the hub hung up without a word"
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
            self._heard(conversation)
        await self._touch()
        return end

    async def _refused(self, obeyed: int, end: session_events.Close, fence: int) -> session_events.Close:
        """A hub that holds the Lease has this number, a lower one than was obeyed.

        When it is time the one that was obeyed is given up, and the next hello, at once, names the lower one.
        """
        before, now = await self._store.stale_hub(), self._clock()
        found = StaleHub.refused(before, fence, now)
        lower = fence if end.approved else found.lower(now, self._stale_hub_seconds)
        if lower is not None:
            reason = "a person approved it" if end.approved else "no hub has shown the higher one for long"
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
        """When the hub was last heard in an open session, in seconds of the store's clock; None = never."""
        if self._conversation:
            self._heard(self._conversation)
        return self.state.last_contact

    def _heard(self, conversation: Conversation) -> None:
        self.state = self.state.heard(conversation.last_heard())

    async def _keep_contact(self, conversation: Conversation) -> None:
        with contextlib.suppress(StoreFailed):  # the next write raises it
            while True:
                await asyncio.sleep(CONTACT_SECONDS)
                self._heard(conversation)
                await self._touch()

    async def write_contact(self) -> None:
        """Write down when the hub was last heard; after ``run`` ended, however it did.

        A goodbye that takes too long is cut off, and the write that follows it with it.
        """
        with contextlib.suppress(StoreFailed):  # the call that met it first raises it
            await self._touch()

    async def _touch(self) -> None:
        contact = self.state.last_contact
        if contact is not None and contact != self._touched:
            with contextlib.suppress(Temporary):  # a full disk: the age is understated after a restart, no more
                await self._store.touch(contact)
            self._touched = contact
