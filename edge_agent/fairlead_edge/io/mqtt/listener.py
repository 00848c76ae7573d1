"""The MQTT listener as a whole: ``app`` opens and runs it, and reads its status."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead_edge.io.local_api.listener import (
    BACKLOG,
    DRAIN_SECONDS_MAX,
    OPENING_MAX,
    OPENING_SECONDS_MAX,
    CannotListen,
)
from fairlead_edge.io.module_tokens_file import ModuleTokensFile
from fairlead_edge.io.mqtt.clients import Clients
from fairlead_edge.io.mqtt.connection import Connection
from fairlead_edge.io.mqtt.deliveries import MqttDeliveries
from fairlead_edge.io.mqtt.intake import Intake, ResumeQueue
from fairlead_edge.io.outbox.store_clock import timestamp
from fairlead_edge.io.outbox.upstream import UpstreamService
from fairlead_edge.mqtt import messages, reasons
from fairlead_edge.mqtt.client import ClientAdmission
from fairlead_edge.mqtt.codec import Id
from fairlead_edge.mqtt.limits import SessionLimits
from fairlead_edge.mqtt.packets import LEVEL_5, Connect
from fairlead_edge.mqtt.reasons import FAILURE, Code, MqttRefused
from fairlead_edge.mqtt.session import Acknowledged, Opening, PublishOutcome, ReceivedPublish, Subscribed
from fairlead_edge.mqtt.settings import MqttSettings
from fairlead_edge.mqtt.status import Counters, MqttStatus
from fairlead_edge.mqtt.wills import AuthoredWill
from fairlead_edge.outbox.authorship import Author
from fairlead_edge.settings import EdgeSettings
from fairlead_wire import errors
from fairlead_wire.io import handshake, logs, tls
from fairlead_wire.io.acceptor import Acceptor, bound
from fairlead_wire.log_limiter import LogLimiter
from fairlead_wire.validation import listen_address

TICK_SECONDS: Final = 1.0
"""How often to check for silent clients and wills that are due."""
RETRY_SECONDS: Final = 1.0
ID_BYTES: Final = 16
FOR_EVER_SECONDS: Final = 7 * 86_400
"""How long a session is kept if messages without their own time to live never expire."""
DEFAULT_SECONDS: Final = 7200

NOT_OPENED_LOG_SECONDS: Final = 60.0
"""Interval between log lines about connections of one address that fail before their CONNECT for one reason."""

_log = logs.get("edge.mqtt")


class MqttListener:
    """One per agent with ``[mqtt] listen``.  ``files`` are those of its TLS; None means plain TCP on loopback.

    ``modules`` is the file of ``[modules] tokens_file``, which applies here as well.
    """

    def __init__(
        self,
        settings: MqttSettings,
        upstream: UpstreamService,
        *,
        files: tls.Files | None,
        asks_clients: bool,
        modules: ModuleTokensFile | None,
        ttl_seconds: int,
    ) -> None:
        self._settings = settings
        self._upstream = upstream
        self._files = files
        self._modules = modules
        self._own_tokens = own_tokens(settings.tokens_file, modules)
        self._tokens = self._own_tokens or modules
        self._tls: ssl.SSLContext | None = None
        if files is not None:
            self._tls = tls.server_context(
                files, verifies_clients=asks_clients, certificate_is_optional=self._tokens is not None
            )
        node = upstream.node
        session_seconds = FOR_EVER_SECONDS if ttl_seconds < 0 else ttl_seconds or DEFAULT_SECONDS
        self.limits = SessionLimits(
            node=node,
            packet_bytes_max=settings.packet_bytes_max,
            session_seconds_max=session_seconds,
            other_topics=settings.other_topics,
        )
        self.counters = Counters()
        self._clients = Clients(connections_max=settings.connections_max, clock=_now, publish=self._publish_will)
        self._intake = Intake(
            upstream.publisher,
            node=node,
            counters=self.counters,
            overloaded=self._overloaded,
            new_id=lambda: secrets.token_hex(ID_BYTES),
            timestamp=timestamp,
            clock=_now,
        )
        self._resume_queue = ResumeQueue(
            soon=lambda call: asyncio.get_running_loop().call_soon(call), is_overloaded=lambda: self.is_overloaded()
        )
        self._deliveries = MqttDeliveries(upstream.broker, node=node, counters=self.counters)
        self._is_closing = False
        self._not_opened = LogLimiter(NOT_OPENED_LOG_SECONDS)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Serve inside; at the end, accepted messages are stored and acknowledged.  Raises ``CannotListen``."""
        listen = self._settings.listen
        assert listen is not None
        host, port = listen_address.parse(listen)
        try:
            sockets = bound(host, port, backlog=BACKLOG)
        except OSError as error:
            raise CannotListen(f"mqtt.listen {error.strerror or error}") from None
        acceptor = Acceptor(
            sockets, self._open_socket, self._clients.tick,
            tick_seconds=TICK_SECONDS, retry_seconds=RETRY_SECONDS, log=_log, opening_max=OPENING_MAX,
        )  # fmt: skip
        at = acceptor.address
        _log.info("listening", key="mqtt.listen", host=at[0], port=at[1], tls=self._tls is not None)
        try:
            yield
        finally:
            self._is_closing = True
            await acceptor.close()
            self._overloaded(True)
            await self._intake.drain(DRAIN_SECONDS_MAX)
            for connection in self._clients:
                connection.session.will = None  # the agent ends the connection, not the client
                connection.refuse(MqttRefused(Code.SERVER_SHUTTING_DOWN, "the agent stops"))
            await self._deliveries.close()

    async def run(self) -> None:
        """Until cancelled: read certificates, authorities and tokens again when their files change."""
        async with asyncio.TaskGroup() as group:
            if self._own_tokens is not None:
                group.create_task(self._own_tokens.keep_loaded())
            if self._tls is not None and self._files is not None:
                group.create_task(tls.keep_loaded(self._tls, self._files))
            await asyncio.get_running_loop().create_future()

    def status(self) -> MqttStatus:
        """The current state."""
        return MqttStatus(
            counters=self.counters,
            connections=self._clients.open_now,
            waiting=self._intake.waiting,
            delivered=sum(len(connection.session.delivered) for connection in self._clients),
            kept=len(self._clients.kept),
        )

    # ---- connection.Services ----

    def opened(self, connection: Connection) -> None:
        self._clients.opened(connection)
        if self.is_overloaded():
            self._resume_queue.hold([connection])

    def identify(self, connect: Connect, certificate: str | None) -> Opening:
        admission = ClientAdmission(
            node=self._upstream.node,
            required=self._tls is not None,
            tokens=self._tokens.read_tokens() if self._tokens is not None else None,
        )
        client = admission.admit(connect, certificate, secrets.token_hex(ID_BYTES))
        most = self.limits.session_seconds_max
        if connect.level == LEVEL_5:
            expiry = min(connect.properties.get(Id.SESSION_EXPIRY_INTERVAL, 0), most)
        else:
            expiry = 0 if connect.clean else most
        author = Author(module=client.module, node=self._upstream.node, has_token=self._has_token)
        return Opening(client=client, author=author, clean=connect.clean, expiry_seconds=expiry)

    def open(self, connection: Connection, opening: Opening) -> Sequence[Subscribed] | None:
        if self._is_closing:
            raise MqttRefused(Code.SERVER_SHUTTING_DOWN, "the agent stops")
        return self._clients.open(connection, opening)

    def add(self, connection: Connection, received: Sequence[ReceivedPublish]) -> None:
        self._intake.add(connection, received)

    def begin(self, connection: Connection, subscribed: Subscribed) -> None:
        self._deliveries.begin(connection, subscribed)

    def end(self, connection: Connection, filter: str) -> None:
        self._deliveries.end(connection, filter)

    def acknowledge(self, acknowledged: Iterable[Acknowledged]) -> None:
        self._deliveries.acknowledge(acknowledged)

    def over(self, connection: Connection) -> None:
        self._resume_queue.remove(connection)
        self._deliveries.end_all(connection, connection.session.delivered.take())
        self._clients.over(connection)

    def is_overloaded(self) -> bool:
        return self._intake.is_overloaded or self._is_closing

    # ---- parts ----

    def _has_token(self, module: str) -> bool:
        files = (each for each in (self._own_tokens, self._modules) if each is not None)
        return any(each.read_tokens().has(module) for each in files)

    def _overloaded(self, is_overloaded: bool) -> None:
        if is_overloaded:
            self._resume_queue.hold(self._clients)
        else:
            self._resume_queue.resume()

    def _publish_will(self, will: AuthoredWill) -> None:
        if not self._is_closing:
            self._intake.add(_Will(will), [_received(will, self.limits)])

    async def _open_socket(self, connection: socket.socket, peer: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(OPENING_SECONDS_MAX):
                await loop.connect_accepted_socket(lambda: Connection(self, _now), connection, ssl=self._tls)
        except (OSError, TimeoutError) as error:
            self._report_not_opened(peer, error)
            connection.close()
        except BaseException:
            connection.close()
            raise

    def _report_not_opened(self, peer: str, error: OSError | TimeoutError) -> None:
        if handshake.refusal(error) is not None or not isinstance(error, ssl.SSLError | TimeoutError):
            # Refused certificates are logged with their names by the TLS context; a probe connects and hangs up.
            _log.debug("connection_not_opened", reason=errors.described(error))
            return
        reason = reasons.handshake_failed(getattr(error, "reason", None) or "")
        times = self._not_opened.due((peer, reason), _now())
        if times is not None:
            _log.warning("mqtt_not_opened", peer=peer, reason=reason, times=times)


def _received(will: AuthoredWill, limits: SessionLimits) -> ReceivedPublish:
    message = msgspec.structs.replace(will.message, qos=min(will.message.qos, 1))
    content = messages.content(message, will.author, node=limits.node, other_topics=limits.other_topics)
    return ReceivedPublish(message, content, message.properties.get(Id.MESSAGE_EXPIRY_INTERVAL))


def _now() -> float:
    return asyncio.get_running_loop().time()


class _Will:
    """The source of a will, in place of the client that disconnected."""

    level = LEVEL_5  # a refusal ends with its code, without a dead letter

    def __init__(self, will: AuthoredWill) -> None:
        self.module = will.author.module

    def stored(self, outcomes: Sequence[PublishOutcome]) -> None:
        for outcome in outcomes:
            if outcome.code >= FAILURE:
                _log.warning("mqtt_will_refused", code=outcome.code.label, reason=outcome.reason)

    def hold(self, is_held: bool) -> None:
        """Does nothing: there is no connection to read."""

    def refuse(self, refused: MqttRefused) -> None:
        _log.warning("mqtt_will_not_stored", code=refused.code.label, reason=str(refused))


def own_tokens(tokens_file: str | None, modules: ModuleTokensFile | None) -> ModuleTokensFile | None:
    """The file of ``mqtt.tokens_file``; None if there is none, or ``modules`` reads it: two would log each mistake."""
    if tokens_file is None or (modules is not None and Path(tokens_file) == modules.path):
        return None
    return ModuleTokensFile(Path(tokens_file))


def open_listener(settings: EdgeSettings, upstream: UpstreamService, modules: ModuleTokensFile | None) -> MqttListener:
    """The listener for these settings.  Raises ``TlsFilesError``, ``BadTokens``."""
    mqtt = settings.mqtt
    cert, key = mqtt.tls_cert or settings.tls_cert, mqtt.tls_key or settings.tls_key
    ca = mqtt.tls_ca or settings.tls_ca
    has_tls = settings.security == "mtls" or mqtt.own_tls
    files = None
    if has_tls:
        assert cert is not None and key is not None  # checked with the settings
        # If no client is asked for a certificate, no authority is read.
        files = tls.Files(ca=Path(ca or cert), cert=Path(cert), key=Path(key), ca_setting="mqtt.tls_ca")
    return MqttListener(
        mqtt, upstream, files=files, asks_clients=ca is not None, modules=modules,
        ttl_seconds=settings.store.default_ttl_seconds,
    )  # fmt: skip
