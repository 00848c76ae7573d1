"""The session of one connection: bytes go in; bytes, messages to store, subscriptions and acknowledgements come out.

    opening ──CONNECT, admitted──▶ open ──DISCONNECT, a fault, silence──▶ over

After each call the caller gets what to do from ``take``, does it, and reports back: ``stored`` when messages are on
disk (or refused), ``deliver`` with messages for a subscription.  PUBACKs are sent in the order of the PUBLISHes
(MQTT-4.6.0-2), because messages are stored in that order.  A fault ends the connection with its code; later bytes are
ignored.

Messages are not retained, QoS 2 is refused, and topic aliases, wildcards, shared subscriptions and subscription
identifiers are not supported; ``CONNACK`` says so at level 5.  ``wills`` has wills and sessions of disconnected
clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec

from fairlead_edge import ascii_case
from fairlead_edge.mqtt import codec, messages, packets, reasons, topics
from fairlead_edge.mqtt.client import MqttClient
from fairlead_edge.mqtt.codec import Id, PacketReader
from fairlead_edge.mqtt.delivery import DeliveryWindow
from fairlead_edge.mqtt.limits import (
    CONNECT_BYTES_MAX,
    CONNECT_SECONDS_MAX,
    DELIVERED_MAX,
    DESTINATION_CHARS_MAX,
    DESTINATIONS_MAX,
    KEEP_ALIVE_3_SECONDS_MAX,
    KEEP_ALIVE_FACTOR,
    KEEP_ALIVE_SECONDS,
    RECEIVE_MAXIMUM,
    SUBSCRIPTIONS_MAX,
    SessionLimits,
)
from fairlead_edge.mqtt.packets import LEVEL_5, Connect, PublishPacket, Will
from fairlead_edge.mqtt.reasons import FAILURE, Code, MqttRefused
from fairlead_edge.mqtt.topics import Destination, InputFilter
from fairlead_edge.outbox.authorship import Author
from fairlead_edge.outbox.brokered.endpoint import Leased
from fairlead_edge.outbox.publishing import RefusalReason, Submission

FIRST_BYTE: Final = b"\x10"
"""The first byte of a CONNECT; a connection that begins differently is not MQTT."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """An admitted client.  ``expiry_seconds``: how long its subscriptions outlive the connection."""

    client: MqttClient
    author: Author
    clean: bool
    expiry_seconds: int


class ReceivedPublish(msgspec.Struct, frozen=True, gc=False):
    """A PUBLISH to store, or to refuse permanently.  ``ttl_seconds`` limits its time to live."""

    message: PublishPacket
    content: Submission | RefusalReason
    ttl_seconds: int | None = None


class PublishOutcome(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a PUBLISH, for its PUBACK."""

    message: PublishPacket
    code: Code = Code.SUCCESS
    reason: str = ""


class Subscribed(msgspec.Struct, frozen=True):
    """A subscription begins, or changes its QoS."""

    inputs: InputFilter
    qos: int


class Acknowledged(msgspec.Struct, frozen=True):
    """The client acknowledged this message, or rejected it (``done`` is False)."""

    endpoint: str
    id: str
    done: bool


class Todo(msgspec.Struct, kw_only=True):
    """What to do, in this order: write, store, (un)subscribe, acknowledge, close."""

    write: bytes = b""
    received: Sequence[ReceivedPublish] = ()
    subscribed: Sequence[Subscribed] = ()
    unsubscribed: Sequence[str] = ()
    acknowledged: Sequence[Acknowledged] = ()
    close: bool = False


class Host(Protocol):
    """Admits clients, and keeps their sessions."""

    def identify(self, connect: Connect) -> Opening:
        """Authenticate the client, without changing anything.  Raises ``MqttRefused``."""
        ...

    def open(self, opening: Opening) -> Sequence[Subscribed] | None:
        """Make this the client's connection; returns its kept subscriptions, or None if there was no session.

        Raises ``MqttRefused``.
        """
        ...


class MqttSession:
    """The protocol state of one connection.  ``now`` is the time of any monotonic clock, in seconds."""

    def __init__(self, limits: SessionLimits, host: Host, *, now: float) -> None:
        self._limits = limits
        self._host = host
        self._frames = PacketReader(CONNECT_BYTES_MAX)
        self._level = 0
        self._todo = Todo()
        self._writes: list[bytes] = []
        self._received: list[ReceivedPublish] = []
        self._heard_at = now
        self._silence_seconds = CONNECT_SECONDS_MAX
        self._unacknowledged: set[int] = set()
        self._destinations: dict[str, Destination] = {}
        self.delivered = DeliveryWindow()
        self._client_packet_bytes_max = 0
        self._requested_expiry = 0
        self._sends_reasons = True
        self.opening: Opening | None = None
        self.subscriptions: dict[str, Subscribed] = {}
        self.will: Will | None = None
        """What to publish if the connection ends."""
        self.ended: MqttRefused | None = None
        """Why the session ended, unless the client disconnected."""
        self.is_over = False
        self.expiry_seconds = 0
        self.retained = 0
        """Messages whose RETAIN flag was ignored."""
        self.replaced = 0
        """Messages in which U+FFFD replaced characters that MQTT cannot carry."""

    # ---- input ----

    def receive(self, data: bytes, now: float) -> None:
        """Bytes from the client."""
        if self.is_over:
            return
        try:
            if not self._level and not self._frames.waiting_bytes and data[:1] != FIRST_BYTE:
                raise reasons.not_connect(data)
            for frame in self._frames.feed(data):
                self._heard_at = now
                self._take_packet(packets.read(frame, self._level))
                if self.is_over:
                    return
            if self._frames.wrong is not None:
                raise self._frames.wrong
        except MqttRefused as refused:
            self.refuse(refused)

    def tick(self, now: float) -> None:
        """Call about once a second: ends a session whose client is silent."""
        self.delivered.tick(now)
        if self.is_over or now < self.deadline:
            return
        if self.opening is None:
            self.refuse(MqttRefused(Code.KEEP_ALIVE_TIMEOUT, f"no CONNECT within {CONNECT_SECONDS_MAX:g} s"))
        else:
            self.refuse(MqttRefused(Code.KEEP_ALIVE_TIMEOUT, f"no packet within {self._silence_seconds:g} s"))

    @property
    def deadline(self) -> float:
        """When the session ends if the client stays silent."""
        return self._heard_at + self._silence_seconds

    @property
    def level(self) -> int:
        """The protocol level of its CONNECT: 4 is MQTT 3.1.1, 5 is MQTT 5; 0 before CONNECT."""
        return self._level

    @property
    def last_activity_at(self) -> float:
        return self._heard_at

    def record_activity(self, now: float) -> None:
        """The connection was not read, so silence does not count."""
        self._heard_at = max(self._heard_at, now)

    def refuse(self, refused: MqttRefused) -> None:
        """End the session, with the reason if the client can read it."""
        if self.is_over:
            return
        self.is_over = True
        self.ended = refused
        if self.opening is not None:
            self._writes.append(
                packets.disconnect(self._level, refused.code, str(refused) if self._has_room_for_reason else "")
            )
        elif self._level or isinstance(refused, packets.UnknownLevel):
            level = self._level or (LEVEL_5 if isinstance(refused, packets.UnknownLevel) and refused.level > 5 else 4)
            reason = [(Id.REASON_STRING, str(refused))] if level == LEVEL_5 else []
            self._writes.append(packets.connack(level, refused.code, values=reason))
        self._todo.close = True

    # ---- results ----

    def stored(self, outcomes: Iterable[PublishOutcome]) -> None:
        """These messages, in order of arrival, are on disk or permanently refused."""
        sends_reasons = self._sends_reasons and self._has_room_for_reason
        for outcome in outcomes:
            if packet := outcome.message.packet:
                self._unacknowledged.discard(packet)
                reason = outcome.reason if sends_reasons else ""
                self._writes.append(packets.puback(self._level, packet, outcome.code, reason))

    @property
    def _has_room_for_reason(self) -> bool:
        """Whether the client's maximum packet size leaves room for a reason string."""
        return not 0 < self._client_packet_bytes_max < 2 * packets.REASON_BYTES_MAX

    @property
    def room(self) -> int:
        """How many more messages the client may get."""
        return 0 if self.is_over else self.delivered.room

    @property
    def unacknowledged(self) -> int:
        """Messages from the client whose PUBACK is pending."""
        return len(self._unacknowledged)

    def deliver(self, subscribed: Subscribed, input: str, endpoint: str, leased: Leased) -> str:
        """Write this message for the client; returns why it cannot be written, or ""."""
        message = leased.message
        topic = topics.delivery_topic(subscribed.inputs, input, message, self._limits.node)
        if not topics.WILDCARDS.isdisjoint(topic):
            return "its topic would have + or #, which is not allowed in a message"
        values, user = messages.delivered_properties(message, self._level)
        packet = self.delivered.free_packet() if subscribed.qos else 0
        try:
            content = packets.publish(
                self._level,
                topic,
                messages.payload(message),
                qos=min(subscribed.qos, 1),
                packet=packet,
                dup=bool(subscribed.qos) and leased.attempt > 1,
                values=values,
                user=user,
            )
        except codec.TooLong as error:
            return f"its topic or a property has {error}"
        most = self._client_packet_bytes_max
        if most and len(content) > most:
            return f"its packet has {len(content)} bytes, and the client accepts {most}"
        self._writes.append(content)
        if self._level == LEVEL_5 and messages.is_changed(message):
            self.replaced += 1
        if subscribed.qos:
            self.delivered.add(packet, endpoint, leased)
        return ""

    def take(self) -> Todo:
        """What to do since the last call."""
        todo, self._todo = self._todo, Todo()
        todo.write = b"".join(self._writes)
        self._writes.clear()
        todo.received, self._received = self._received, []
        return todo

    # ---- packets ----

    def _take_packet(self, packet: packets.Packet) -> None:
        if isinstance(packet, PublishPacket):
            if self.opening is None:
                raise MqttRefused(Code.PROTOCOL_ERROR, "the first packet must be CONNECT")
            self._publish(packet, self.opening.author)
        elif isinstance(packet, Connect):
            self._connect(packet)
        elif self.opening is None:
            raise MqttRefused(Code.PROTOCOL_ERROR, "the first packet must be CONNECT")
        elif isinstance(packet, packets.Puback):
            if (found := self.delivered.acknowledged(packet.packet)) is not None:
                self._todo.acknowledged = [*self._todo.acknowledged, Acknowledged(*found, packet.code < FAILURE)]
        elif isinstance(packet, packets.Pingreq):
            self._writes.append(packets.PINGRESP)
        elif isinstance(packet, packets.Subscribe):
            self._subscribe(packet)
        elif isinstance(packet, packets.Unsubscribe):
            self._unsubscribe(packet)
        else:
            self._disconnect(packet)

    def _connect(self, connect: Connect) -> None:
        if self.opening is not None:
            raise MqttRefused(Code.PROTOCOL_ERROR, "a second CONNECT")
        self._level = connect.level
        if Id.AUTHENTICATION_METHOD in connect.properties.values:
            raise MqttRefused(Code.BAD_AUTHENTICATION_METHOD, "only a password is supported")
        if Id.AUTHENTICATION_DATA in connect.properties.values:
            raise MqttRefused(Code.PROTOCOL_ERROR, "authentication data without a method")
        if connect.will is not None and connect.level == LEVEL_5:
            if connect.will.message.qos > 1:
                raise MqttRefused(Code.QOS_NOT_SUPPORTED, "a will has QoS 0 or 1")
            if connect.will.message.retain:
                raise MqttRefused(Code.RETAIN_NOT_SUPPORTED, "a will is not retained")
        opening = self._host.identify(connect)
        if connect.will is not None and isinstance(
            wrong := self._content(connect.will.message, opening.author), RefusalReason
        ):
            raise MqttRefused(reasons.of_message(wrong.code), f"the will: {wrong.message}")
        kept = self._host.open(opening)
        self.opening, self.will = opening, connect.will
        self._sends_reasons = bool(connect.properties.get(Id.REQUEST_PROBLEM_INFORMATION, 1))
        self._frames.bytes_max = self._limits.packet_bytes_max
        keep_alive = self._keep_alive(connect)
        self._silence_seconds = KEEP_ALIVE_FACTOR * keep_alive
        self.expiry_seconds = self._requested_expiry = opening.expiry_seconds
        self.delivered.size = min(DELIVERED_MAX, connect.properties.get(Id.RECEIVE_MAXIMUM, DELIVERED_MAX))
        self._client_packet_bytes_max = connect.properties.get(Id.MAXIMUM_PACKET_SIZE, 0)
        # The module may have a token by now; then only it may subscribe to its inputs.
        begun = [each for each in kept or () if may_take(opening.author, each.inputs.module)]
        for each in begun:
            self.subscriptions[each.inputs.filter] = each
        self._todo.subscribed = [*self._todo.subscribed, *begun]
        values = [
            (Id.SESSION_EXPIRY_INTERVAL, opening.expiry_seconds),
            (Id.RECEIVE_MAXIMUM, RECEIVE_MAXIMUM),
            (Id.MAXIMUM_QOS, 1),
            (Id.RETAIN_AVAILABLE, 0),
            (Id.MAXIMUM_PACKET_SIZE, self._limits.packet_bytes_max),
            (Id.ASSIGNED_CLIENT_IDENTIFIER, None if connect.client_id else opening.client.id),
            (Id.WILDCARD_SUBSCRIPTION_AVAILABLE, 0),
            (Id.SUBSCRIPTION_IDENTIFIER_AVAILABLE, 0),
            (Id.SHARED_SUBSCRIPTION_AVAILABLE, 0),
            (Id.SERVER_KEEP_ALIVE, keep_alive if keep_alive != connect.keep_alive else None),
        ]
        self._writes.append(
            packets.connack(connect.level, Code.SUCCESS, session_present=kept is not None, values=values)
        )

    @staticmethod
    def _keep_alive(connect: Connect) -> int:
        most = KEEP_ALIVE_SECONDS if connect.level == LEVEL_5 else KEEP_ALIVE_3_SECONDS_MAX
        return min(connect.keep_alive, most) or KEEP_ALIVE_SECONDS

    def _publish(self, message: PublishPacket, author: Author) -> None:
        if message.qos == 2:
            raise MqttRefused(Code.QOS_NOT_SUPPORTED, "publish with QoS 0 or 1")
        if message.retain:
            if self._level == LEVEL_5:
                raise MqttRefused(Code.RETAIN_NOT_SUPPORTED, "retained messages are not supported")
            self.retained += 1
        if Id.TOPIC_ALIAS in message.properties.values:
            raise MqttRefused(Code.TOPIC_ALIAS_INVALID, "topic aliases are not supported")
        if Id.SUBSCRIPTION_IDENTIFIER in message.properties.values:
            raise MqttRefused(Code.PROTOCOL_ERROR, "a client's PUBLISH must not have a subscription identifier")
        if self._level != LEVEL_5 and message.topic.startswith(topics.RESERVED):
            raise MqttRefused(Code.TOPIC_NAME_INVALID, f"topics that begin with {topics.RESERVED} are not supported")
        if message.qos:
            if message.packet in self._unacknowledged:
                if message.dup:
                    return  # a duplicate while the first is pending: one PUBACK answers both
                raise MqttRefused(
                    Code.PROTOCOL_ERROR, f"packet identifier {message.packet} is in use: its PUBACK is pending"
                )
            if self._level == LEVEL_5 and len(self._unacknowledged) >= RECEIVE_MAXIMUM:
                reason = f"more than {RECEIVE_MAXIMUM} messages without a PUBACK"
                raise MqttRefused(Code.RECEIVE_MAXIMUM_EXCEEDED, reason)
            self._unacknowledged.add(message.packet)
        expiry = message.properties.get(Id.MESSAGE_EXPIRY_INTERVAL)
        self._received.append(ReceivedPublish(message, self._content(message, author), expiry))

    def _content(self, message: PublishPacket, author: Author) -> Submission | RefusalReason:
        found = self._destinations.get(message.topic)
        if found is None:
            limits = self._limits
            destination = topics.destination(message.topic, node=limits.node, other_topics=limits.other_topics)
            if isinstance(destination, RefusalReason):
                return destination
            found = destination
            if len(message.topic) <= DESTINATION_CHARS_MAX:
                if len(self._destinations) >= DESTINATIONS_MAX:
                    self._destinations.clear()
                self._destinations[message.topic] = found
        return messages.submission(message, found, author)

    def _subscribe(self, packet: packets.Subscribe) -> None:
        codes: list[int] = []
        begun: list[Subscribed] = []
        assert self.opening is not None
        author = self.opening.author
        for each in packet.filters:
            found = topics.inputs(each.text, node=self._limits.node)
            if isinstance(found, InputFilter) and not may_take(author, found.module):
                found = Code.NOT_AUTHORIZED
            elif len(self.subscriptions) >= SUBSCRIPTIONS_MAX and each.text not in self.subscriptions:
                found = Code.QUOTA_EXCEEDED
            if isinstance(found, Code):
                codes.append(found)
                continue
            granted = min(each.qos, 1)
            codes.append(granted)
            begun.append(Subscribed(found, granted))
            self.subscriptions[each.text] = begun[-1]
        self._todo.subscribed = [*self._todo.subscribed, *begun]
        self._writes.append(packets.suback(self._level, packet.packet, codes))

    def _unsubscribe(self, packet: packets.Unsubscribe) -> None:
        known = [self.subscriptions.pop(each, None) is not None for each in packet.filters]
        # The caller unsubscribes first, so drop subscriptions made in the same batch of packets.
        self._todo.subscribed = [each for each in self._todo.subscribed if each.inputs.filter not in packet.filters]
        self._todo.unsubscribed = [*self._todo.unsubscribed, *packet.filters]
        codes = [Code.SUCCESS if each else Code.NO_SUBSCRIPTION_EXISTED for each in known]
        self._writes.append(packets.unsuback(self._level, packet.packet, codes))

    def _disconnect(self, packet: packets.Disconnect) -> None:
        expiry = packet.properties.get(Id.SESSION_EXPIRY_INTERVAL)
        if expiry is not None:
            if expiry and not self._requested_expiry:
                raise MqttRefused(
                    Code.PROTOCOL_ERROR, "a session without an expiry interval cannot be given one at DISCONNECT"
                )
            self.expiry_seconds = min(expiry, self._limits.session_seconds_max)
        if packet.code == Code.SUCCESS:
            self.will = None
        self.is_over = True
        self._todo.close = True


def may_take(author: Author, module: str) -> bool:
    """Whether the author may get messages of the module: a module with a token only its own, any other program those of
    modules without a token."""
    if author.module:
        return ascii_case.same(author.module, module)
    return not author.has_token(module)
