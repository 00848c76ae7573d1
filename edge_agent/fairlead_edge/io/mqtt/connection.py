"""One connection: drives the session with the bytes of the socket, and does what the session asks for.

It is not read while too much waits for the disk, or while the client does not read its answers, so memory is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final, Protocol, cast

from fairlead_edge.mqtt.limits import SessionLimits
from fairlead_edge.mqtt.packets import Connect, Will
from fairlead_edge.mqtt.reasons import Code, MqttRefused
from fairlead_edge.mqtt.session import Acknowledged, MqttSession, Opening, PublishOutcome, ReceivedPublish, Subscribed
from fairlead_edge.mqtt.status import Counters
from fairlead_edge.outbox.brokered.endpoint import LEASE_SECONDS, Leased
from fairlead_wire.io import logs, tls

STALLED_SECONDS_MAX: Final = 30.0
"""A client that does not read pending bytes for this long is closed."""
GOODBYE_SECONDS_MAX: Final = 5.0
WRITE_BYTES_MAX: Final = 256 * 1024
"""With more pending bytes than this, the client is not read either, and gets no more messages."""
CLIENT_ROLES: Final = frozenset({"module", "device"})
"""Roles in a certificate's ``spiffe://<installation>/<role>/<name>``; nodes and servers cannot connect."""

_log = logs.get("edge.mqtt")


class Services(Protocol):
    """What a connection needs of the listener."""

    limits: SessionLimits
    counters: Counters

    def opened(self, connection: Connection) -> None: ...
    def identify(self, connect: Connect, certificate: str | None) -> Opening: ...
    def open(self, connection: Connection, opening: Opening) -> Sequence[Subscribed] | None: ...
    def add(self, connection: Connection, received: Sequence[ReceivedPublish]) -> None: ...
    def begin(self, connection: Connection, subscribed: Subscribed) -> None: ...
    def end(self, connection: Connection, filter: str) -> None: ...
    def acknowledge(self, acknowledged: Iterable[Acknowledged]) -> None: ...
    def over(self, connection: Connection) -> None:
        """Called once, when the connection has ended."""
        ...

    def is_overloaded(self) -> bool: ...


class Connection(asyncio.Protocol):
    """``clock`` is monotonic.  Implements what ``Intake`` and ``MqttDeliveries`` need of a connection."""

    def __init__(self, services: Services, clock: Callable[[], float]) -> None:
        self._services = services
        self._clock = clock
        self.session = MqttSession(services.limits, self, now=clock())
        self._transport: asyncio.Transport | None = None
        self._certificate: str | None = None
        self._is_reading = True
        self._is_held = False
        self._stalled_since: float | None = None
        self._is_over = False
        self._room = asyncio.Event()
        self._idle = asyncio.Event()
        self._alone = asyncio.Lock()

    # ---- asyncio.Protocol ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's are no subclasses
        transport.set_write_buffer_limits(high=WRITE_BYTES_MAX)
        self._services.opened(self)
        shown = transport.get_extra_info("peercert")
        if shown:
            roles = tls.peer_roles(shown)
            is_client = all(role in CLIENT_ROLES for role, _ in roles)
            self._certificate = (tls.peer_name(shown) or "") if is_client else ""
        self.update_reading()

    def data_received(self, data: bytes) -> None:
        self.session.receive(data, self._clock())
        self._act()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end("connection_lost" if self.session.ended is None else "")

    def pause_writing(self) -> None:
        self._stalled_since = self._clock()
        self.update_reading()

    def resume_writing(self) -> None:
        self._stalled_since = None
        self.update_reading()
        self._signal_room()

    # ---- session.Host ----

    def identify(self, connect: Connect) -> Opening:
        return self._services.identify(connect, self._certificate)

    def open(self, opening: Opening) -> Sequence[Subscribed] | None:
        return self._services.open(self, opening)

    # ---- Intake's and Deliveries' ----

    @property
    def level(self) -> int:
        return self.session.level

    @property
    def module(self) -> str:
        return self.session.opening.author.module if self.session.opening is not None else ""

    def stored(self, outcomes: Sequence[PublishOutcome]) -> None:
        if self._is_over:
            return  # the client reconnects and repeats them
        self.session.stored(outcomes)
        self._act()

    def refuse(self, refused: MqttRefused) -> None:
        """Close the connection, with the reason."""
        if not self._is_over:
            self.session.refuse(refused)
            self._act()

    def hold(self, is_held: bool) -> None:
        self._is_held = is_held
        self.update_reading()

    async def ready(self) -> int:
        while not self.room:
            self._room.clear()
            await self._room.wait()
        return self.room

    @property
    def room(self) -> int:
        return 0 if self._alone.locked() else self._room_now

    @property
    def _room_now(self) -> int:
        is_writable = not self._is_over and self._stalled_since is None
        return self.session.room if is_writable else 0

    @property
    def has_unacknowledged(self) -> bool:
        return len(self.session.delivered) > 0

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[bool]:
        try:
            async with self._alone:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LEASE_SECONDS):
                        while self.session.delivered:
                            self._idle.clear()
                            await self._idle.wait()
                yield self._room_now > 0
        finally:
            self._signal_room()

    def deliver(self, subscribed: Subscribed, input: str, endpoint: str, leased: Iterable[Leased]) -> dict[str, str]:
        before = self.session.replaced
        wrong = {each.id: self.session.deliver(subscribed, input, endpoint, each) for each in leased}
        self._services.counters.replaced += self.session.replaced - before
        self._act()
        return {id: why for id, why in wrong.items() if why}

    # ---- the listener's ----

    def tick(self, now: float) -> None:
        """Call about once a second."""
        if self._services.is_overloaded() or self._is_held:
            self.session.record_activity(now)
        if self._stalled_since is not None and now - self._stalled_since > STALLED_SECONDS_MAX:
            _log.info("client_does_not_read", client=self.name, limit_seconds=STALLED_SECONDS_MAX)
            self.abort("does_not_read")
            return
        self.session.tick(now)
        self._act()
        self._signal_room()

    def abort(self, reason: str) -> None:
        """Close the connection without a DISCONNECT."""
        self._end(reason)
        if self._transport is not None:
            self._transport.abort()

    @property
    def name(self) -> str:
        """For logs."""
        return self.session.opening.client.id if self.session.opening is not None else ""

    @property
    def will(self) -> Will | None:
        return self.session.will

    # ---- parts ----

    def _act(self) -> None:
        session, transport, services = self.session, self._transport, self._services
        todo = session.take()
        if self._is_over or transport is None:
            return
        if todo.write:
            transport.write(todo.write)
        if todo.received:
            services.add(self, todo.received)
        for filter in todo.unsubscribed:
            services.end(self, filter)
        for each in todo.subscribed:
            services.begin(self, each)
        if todo.acknowledged:
            services.acknowledge(todo.acknowledged)
            self._signal_room()
        if todo.close:
            ended = session.ended
            self._end(ended.code.label if ended is not None else "disconnect")
            transport.close()
            # Do not wait for a client that does not read the DISCONNECT.
            asyncio.get_running_loop().call_later(GOODBYE_SECONDS_MAX, transport.abort)

    def _end(self, reason: str) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._services.counters.closed[reason] += 1
        self._services.counters.retained += self.session.retained
        ended = self.session.ended
        if ended is not None and ended.code is not Code.SESSION_TAKEN_OVER:
            _log.info("mqtt_closed", client=self.name, code=ended.code.label, reason=str(ended))
        self._services.over(self)

    def _signal_room(self) -> None:
        if self.room:
            self._room.set()
        if not self.session.delivered:
            self._idle.set()

    def update_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        wanted = self._stalled_since is None and not self._is_held and not self._services.is_overloaded()
        if wanted and not self._is_reading:
            transport.resume_reading()
        elif not wanted and self._is_reading:
            transport.pause_reading()
        self._is_reading = wanted
