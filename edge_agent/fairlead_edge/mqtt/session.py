"""One connection as MQTT sees it: bytes in, and out come bytes, messages to store, subscriptions and acknowledgements.

    opening ──CONNECT, admitted──▶ open ──DISCONNECT, a fault, silence──▶ over

The caller asks ``take`` for what is to be done after each call, does it, and reports back: ``stored`` when
messages are on disk (or refused), ``deliver`` with messages for a subscription.  PUBACKs leave in the order of the
PUBLISHes (MQTT-4.6.0-2), because they are stored in that order.  A fault ends the connection with its code: nothing
that comes after it is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec

from fairlead_edge import ascii_case
from fairlead_edge.mqtt import encode, fields, packets, reasons, submission, topics
from fairlead_edge.mqtt.client import MqttClient
from fairlead_edge.mqtt.frames import PacketReader
from fairlead_edge.mqtt.packets import LEVEL_5, Connect, PublishPacket, Will
from fairlead_edge.mqtt.properties import Id
from fairlead_edge.mqtt.reasons import FAILURE, Code, MqttRefused
from fairlead_edge.mqtt.topics import Destination, InputFilter
from fairlead_edge.outbox.authorship import Author
from fairlead_edge.outbox.brokered.endpoint import LEASE_SECONDS, Leased
from fairlead_edge.outbox.publishing import RefusalReason, Submission

CONNECT_SECONDS_MAX: Final = 10.0
FIRST_BYTE: Final = b"\x10"
"""Of a CONNECT: what begins otherwise is not MQTT, or begins in the middle."""
CONNECT_BYTES_MAX: Final = 64 * 1024
RECEIVE_MAXIMUM: Final = 1024
"""PUBLISHes of a client of level 5 that may be unacknowledged."""
KEEP_ALIVE_SECONDS: Final = 300
"""Of level 5 at most, and of a client that asks for none."""
KEEP_ALIVE_3_SECONDS_MAX: Final = 3600
"""Level 4 cannot be told another value than it asked for."""
KEEP_ALIVE_FACTOR: Final = 1.5
DELIVERED_MAX: Final = 100
"""Messages a subscriber may have unacknowledged."""
SUBSCRIPTIONS_MAX: Final = 100
DESTINATIONS_MAX: Final = 256
DESTINATION_CHARS_MAX: Final = 256
"""Topics whose meaning is remembered; one with properties behind it is hardly ever met again."""
_PACKETS: Final = 65_536


class SessionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings say."""

    node: str
    packet_bytes_max: int
    session_seconds_max: int
    other_topics: bool = False


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """A client that was let in.  ``expiry_seconds``: how long its subscriptions are kept after its connection."""

    client: MqttClient
    author: Author
    clean: bool
    expiry_seconds: int


class ReceivedPublish(msgspec.Struct, frozen=True, gc=False):
    """A PUBLISH to store, or to refuse for good.  ``ttl_seconds``: it may live no longer."""

    message: PublishPacket
    content: Submission | RefusalReason
    ttl_seconds: int | None = None


class PublishOutcome(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a PUBLISH, for its PUBACK."""

    message: PublishPacket
    code: Code = Code.SUCCESS
    reason: str = ""


class Subscribed(msgspec.Struct, frozen=True):
    """A subscription begins, or begins anew with another QoS."""

    inputs: InputFilter
    qos: int


class Acknowledged(msgspec.Struct, frozen=True):
    """The client has this message, or does not want it (``done`` False)."""

    endpoint: str
    id: str
    done: bool


class Todo(msgspec.Struct, kw_only=True):
    """What is to be done, in this order: write, store, (un)subscribe, acknowledge, close."""

    write: bytes = b""
    received: Sequence[ReceivedPublish] = ()
    subscribed: Sequence[Subscribed] = ()
    unsubscribed: Sequence[str] = ()
    acknowledged: Sequence[Acknowledged] = ()
    close: bool = False


class Host(Protocol):
    """Who may connect, and what was kept for those who did."""

    def identify(self, connect: Connect) -> Opening:
        """Changes nothing.  Raises ``MqttRefused``."""
        ...

    def open(self, opening: Opening) -> Sequence[Subscribed] | None:
        """From now on this connection is the client's; the subscriptions that were kept for it, None: there was no
        session.  Raises ``MqttRefused``."""
        ...


class MqttSession:
    """``now`` is any clock that goes on steadily."""

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
        self._delivered: dict[int, tuple[str, str]] = {}
        self._alone = 0
        """Packet identifier of the last message given that had failed before."""
        self._alone_since: float | None = None
        self._next_packet = 1
        self._window = DELIVERED_MAX
        self._client_packet_bytes_max = 0
        self._asked_expiry = 0
        self._says_why = True
        self.opening: Opening | None = None
        self.subscriptions: dict[str, Subscribed] = {}
        self.will: Will | None = None
        """What is to be published if the connection ended now."""
        self.ended: MqttRefused | None = None
        """Why the session is over, where it was not the client's own DISCONNECT."""
        self.is_over = False
        self.expiry_seconds = 0
        self.retained = 0
        """Messages whose RETAIN flag was dropped."""
        self.replaced = 0
        """Messages written with U+FFFD for characters that MQTT cannot carry."""

    # ---- what arrives ----

    def receive(self, data: bytes, now: float) -> None:
        """Bytes from the client."""
        if self.is_over:
            return
        try:
            if not self._level and not self._frames.waiting_bytes and data[:1] != FIRST_BYTE:
                raise MqttRefused(Code.PROTOCOL_ERROR, "the first packet must be CONNECT")
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
        """To be called now and then: ends a session whose client is silent."""
        if self._alone in self._delivered:
            self._alone_since = now if self._alone_since is None else self._alone_since
            if now - self._alone_since >= LEASE_SECONDS:
                self._alone = 0  # it is given out again by now: others need not wait for it any longer
        if self.is_over or now < self.deadline:
            return
        if self.opening is None:
            self.refuse(MqttRefused(Code.KEEP_ALIVE_TIMEOUT, f"no CONNECT within {CONNECT_SECONDS_MAX:g} s"))
        else:
            self.refuse(MqttRefused(Code.KEEP_ALIVE_TIMEOUT, f"no packet within {self._silence_seconds:g} s"))

    @property
    def deadline(self) -> float:
        """When the client will have been silent for too long."""
        return self._heard_at + self._silence_seconds

    @property
    def level(self) -> int:
        """Of its CONNECT: 4 is MQTT 3.1.1, 5 is MQTT 5; 0: none came so far."""
        return self._level

    @property
    def heard_at(self) -> float:
        return self._heard_at

    def heard(self, now: float) -> None:
        """Its silence was ours: it was not read."""
        self._heard_at = max(self._heard_at, now)

    def refuse(self, refused: MqttRefused) -> None:
        """End the session, and say why where the client can read it."""
        if self.is_over:
            return
        self.is_over = True
        self.ended = refused
        if self.opening is not None:
            self._writes.append(encode.disconnect(self._level, refused.code, str(refused) if self._fits_why else ""))
        elif self._level or isinstance(refused, packets.UnknownLevel):
            level = self._level or (LEVEL_5 if isinstance(refused, packets.UnknownLevel) and refused.level > 5 else 4)
            reason = [(Id.REASON_STRING, str(refused))] if level == LEVEL_5 else []
            self._writes.append(encode.connack(level, refused.code, values=reason))
        self._todo.close = True

    # ---- what was done ----

    def stored(self, outcomes: Iterable[PublishOutcome]) -> None:
        """These messages, in the order they came, are on disk or refused for good."""
        says_why = self._says_why and self._fits_why
        for outcome in outcomes:
            if packet := outcome.message.packet:
                self._unacknowledged.discard(packet)
                reason = outcome.reason if says_why else ""
                self._writes.append(encode.puback(self._level, packet, outcome.code, reason))

    @property
    def _fits_why(self) -> bool:
        """A client may take only packets in which a sentence has no room."""
        return not 0 < self._client_packet_bytes_max < 2 * encode.REASON_BYTES_MAX

    @property
    def room(self) -> int:
        """How many more messages the client may be given; none while it has one that failed before."""
        if self.is_over or self._alone in self._delivered:
            return 0
        return self._window - len(self._delivered)

    @property
    def delivered(self) -> int:
        """Messages the client has and did not acknowledge."""
        return len(self._delivered)

    @property
    def unacknowledged(self) -> int:
        """Messages of the client that wait for their PUBACK."""
        return len(self._unacknowledged)

    def deliver(self, subscribed: Subscribed, input: str, endpoint: str, leased: Leased) -> str:
        """Write this message for the client; or why it cannot be written.

        One that failed before is the last the client gets until it acknowledges it: should it be what the client fails
        by, no other message fails with it.
        """
        message = leased.message
        topic = topics.delivery_topic(subscribed.inputs, input, message, self._limits.node)
        if not topics.WILDCARDS.isdisjoint(topic):
            return "its topic would hold + or #, which no topic of a message may"
        values, user = submission.delivered_properties(message, self._level)
        packet = self._free_packet() if subscribed.qos else 0
        try:
            content = encode.publish(
                self._level,
                topic,
                submission.payload(message),
                qos=min(subscribed.qos, 1),
                packet=packet,
                dup=bool(subscribed.qos) and leased.attempt > 1,
                values=values,
                user=user,
            )
        except fields.TooLong as error:
            return f"its topic or a property has {error}"
        most = self._client_packet_bytes_max
        if most and len(content) > most:
            return f"it is a packet of {len(content)} bytes, and the client takes {most}"
        self._writes.append(content)
        if self._level == LEVEL_5 and submission.is_changed(message):
            self.replaced += 1
        if subscribed.qos:
            self._delivered[packet] = (endpoint, leased.id)
            if leased.attempt > 1:
                self._alone, self._alone_since = packet, None
        return ""

    def take_delivered(self) -> list[tuple[str, str]]:
        """Endpoint and id of what the client has and did not acknowledge, when its connection is over."""
        found = list(self._delivered.values())
        self._delivered.clear()
        return found

    def take(self) -> Todo:
        """What there is to do; asked again, nothing, until something happens."""
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
            if (found := self._delivered.pop(packet.packet, None)) is not None:
                self._todo.acknowledged = [*self._todo.acknowledged, Acknowledged(*found, packet.code < FAILURE)]
        elif isinstance(packet, packets.Pingreq):
            self._writes.append(encode.PINGRESP)
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
            raise MqttRefused(Code.BAD_AUTHENTICATION_METHOD, "a password is all that is asked for")
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
        self._says_why = bool(connect.properties.get(Id.REQUEST_PROBLEM_INFORMATION, 1))
        self._frames.bytes_max = self._limits.packet_bytes_max
        keep_alive = self._keep_alive(connect)
        self._silence_seconds = KEEP_ALIVE_FACTOR * keep_alive
        self.expiry_seconds = self._asked_expiry = opening.expiry_seconds
        self._window = min(DELIVERED_MAX, connect.properties.get(Id.RECEIVE_MAXIMUM, DELIVERED_MAX))
        self._client_packet_bytes_max = connect.properties.get(Id.MAXIMUM_PACKET_SIZE, 0)
        # A module may have got a token of its own since: then its inputs are for that alone.
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
            encode.connack(connect.level, Code.SUCCESS, session_present=kept is not None, values=values)
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
                raise MqttRefused(Code.RETAIN_NOT_SUPPORTED, "nothing is retained here")
            self.retained += 1
        if Id.TOPIC_ALIAS in message.properties.values:
            raise MqttRefused(Code.TOPIC_ALIAS_INVALID, "topic aliases are not offered")
        if Id.SUBSCRIPTION_IDENTIFIER in message.properties.values:
            raise MqttRefused(Code.PROTOCOL_ERROR, "a client's PUBLISH has no subscription identifier")
        if self._level != LEVEL_5 and message.topic.startswith(topics.RESERVED):
            raise MqttRefused(Code.TOPIC_NAME_INVALID, f"topics that begin with {topics.RESERVED} are not offered here")
        if message.qos:
            if message.packet in self._unacknowledged:
                if message.dup:
                    return  # sent again by an impatient client: the PUBACK that is to come is for both
                raise MqttRefused(Code.PROTOCOL_ERROR, f"packet identifier {message.packet} waits for its PUBACK")
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
        return submission.submission(message, found, author)

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
        self._writes.append(encode.suback(self._level, packet.packet, codes))

    def _unsubscribe(self, packet: packets.Unsubscribe) -> None:
        known = [self.subscriptions.pop(each, None) is not None for each in packet.filters]
        # What was subscribed to in the same breath is not begun: unsubscribing is done first.
        self._todo.subscribed = [each for each in self._todo.subscribed if each.inputs.filter not in packet.filters]
        self._todo.unsubscribed = [*self._todo.unsubscribed, *packet.filters]
        codes = [Code.SUCCESS if each else Code.NO_SUBSCRIPTION_EXISTED for each in known]
        self._writes.append(encode.unsuback(self._level, packet.packet, codes))

    def _disconnect(self, packet: packets.Disconnect) -> None:
        expiry = packet.properties.get(Id.SESSION_EXPIRY_INTERVAL)
        if expiry is not None:
            if expiry and not self._asked_expiry:
                raise MqttRefused(
                    Code.PROTOCOL_ERROR, "a session that was to end with its connection is not kept after it"
                )
            self.expiry_seconds = min(expiry, self._limits.session_seconds_max)
        if packet.code == Code.SUCCESS:
            self.will = None
        self.is_over = True
        self._todo.close = True

    def _free_packet(self) -> int:
        """There is always one: the client has few of them at a time."""
        while self._next_packet in self._delivered:
            self._next_packet = self._next_packet % (_PACKETS - 1) + 1
        packet = self._next_packet
        self._next_packet = packet % (_PACKETS - 1) + 1
        return packet


def may_take(author: Author, module: str) -> bool:
    """A module's messages are its own alone; any program has those of modules without a token."""
    if author.module:
        return ascii_case.same(author.module, module)
    return not author.has_token(module)
