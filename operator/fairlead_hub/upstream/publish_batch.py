"""What an edge says, on its way into topics: in which order, who may name which topic, and the envelope.

    upstream frame ─Order─▶ not now, with the one it follows
           └─plan─▶ Refused (never, with the reason) + Parcels by (topic, stream, epoch) ─publish─▶ ack

The hub stamps ``node`` from the link's identity, whatever the message claims (contract section 8).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairlead_messaging.api.responses import Placed
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link import codec, peer_json

MESSAGES_MAX = 512
"""Messages in one batch; an edge that sends more breaks the protocol.  An edge of ours sends 256, and an ack has to
have room for as many refusals."""
REASONS_BYTES_MAX = codec.HEADER_BYTES_MAX // 3
"""Of an ack's header; the rest holds the indexes and codes, and the positions."""
POSITIONS_MAX = 64
"""Of an ack; where a batch goes to more topics, those of the others are not said."""

_messages = msgspec.json.Decoder(list[message.UpstreamMessage])


class Envelope(msgspec.Struct, kw_only=True):
    """The payload in the topic, field by field as contract section 8 lists them.

    A body that is not JSON text: ``body`` is null and the bytes travel in base64.
    """

    id: str
    node: str
    epoch: int
    stream: str
    sequence: int
    source: str
    priority: int
    enqueued_at: str
    properties: dict[str, str | None]
    system_properties: dict[str, str | None] = msgspec.field(name="systemProperties")
    body: msgspec.Raw
    body_base64: str | msgspec.UnsetType | None = msgspec.field(name="bodyBase64", default=msgspec.UNSET)


class PublishBatch(msgspec.Struct, kw_only=True):
    """One publish call: messages of one stream and epoch for one topic, in order."""

    topic: str
    producer: str
    epoch: int
    sequences: list[int] = []
    payloads: list[bytes] = []
    indexes: list[int] = []
    """Where in the batch each message stood."""

    def add(self, index: int, sequence: int, payload: bytes) -> None:
        self.indexes.append(index)
        self.sequences.append(sequence)
        self.payloads.append(payload)

    def halves(self) -> tuple[PublishBatch, PublishBatch]:
        middle = len(self.indexes) // 2
        return self._part(slice(0, middle)), self._part(slice(middle, None))

    def _part(self, part: slice) -> PublishBatch:
        return PublishBatch(
            topic=self.topic,
            producer=self.producer,
            epoch=self.epoch,
            sequences=self.sequences[part],
            payloads=self.payloads[part],
            indexes=self.indexes[part],
        )


class Order:
    """One stream of one session: what was sent behind a batch that was put off is put off with it.

    So a topic shows a stream's messages in the order they were accepted, whatever failed.  The edge waits for all
    answers before it begins again, and says so: that batch follows nothing.
    """

    __slots__ = ("put_off",)

    def __init__(self) -> None:
        self.put_off: message.Nack | None = None
        """The "not now" the stream waits under."""

    def judge(self, header: message.Upstream) -> message.Nack | None:
        """None: publish it, and say with ``answered`` what came of it.  Else the answer."""
        if not header.follows:
            self.put_off = None
        if self.put_off is None:
            return None
        reason = f"the batch before it was put off: {self.put_off.reason}"
        return message.Nack(
            parent_id=header.id,
            code="behind_put_off",
            reason=reason,
            retry_after=self.put_off.retry_after,
            scope=self.put_off.scope,
        )

    def answered(self, answer: message.Ack | message.Nack) -> None:
        self.put_off = answer if isinstance(answer, message.Nack) else None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with one batch."""

    parcels: list[PublishBatch]
    refused: list[message.Refused]
    count: int


def plan(node: str, header: message.Upstream, content: bytes, granted: frozenset[str]) -> Plan:
    """Raises ``Malformed`` when the batch is none; a message that may never be stored is refused alone."""
    text = codec.unpack(header.encoding, content)
    try:
        text.decode()  # the decoder below leaves bodies unread, and topics hold JSON
    except UnicodeDecodeError as error:
        raise Malformed(f"upstream batch is not UTF-8: {error.reason} at byte {error.start}") from None
    batch = peer_json.decode(_messages, text)
    if len(batch) > MESSAGES_MAX:
        raise Malformed(f"upstream batch of {len(batch)} messages is over the limit of {MESSAGES_MAX}")
    parcels: dict[tuple[str, int], PublishBatch] = {}
    refused = []
    for index, item in enumerate(batch):
        if item.topic not in granted:
            reason = f"topic {item.topic} was never named by an EdgeRoutes object of node {node}"
            refused.append(message.Refused(index=index, code="topic_not_granted", reason=reason))
            continue
        if codec.nesting(bytes(item.body)) > codec.NESTING_MAX:
            reason = f"the body is nested deeper than {codec.NESTING_MAX} levels"
            refused.append(message.Refused(index=index, code="bad_body", reason=reason))
            continue
        parcel = parcels.get((item.topic, item.epoch))
        if parcel is None:
            # (node, epoch, stream, sequence) never repeats: it is what the topic knows duplicates by.
            producer = f"{node}/{header.stream}"
            parcel = PublishBatch(topic=item.topic, producer=producer, epoch=item.epoch)
            parcels[(item.topic, item.epoch)] = parcel
        parcel.add(index, item.sequence, envelope(node, header.stream, item))
    return Plan(parcels=list(parcels.values()), refused=refused, count=len(batch))


def bounded(refused: Iterable[message.Refused]) -> list[message.Refused]:
    """What an ack tells of them, in order: every code, and as many reasons as its header has room for."""
    found = []
    room = REASONS_BYTES_MAX
    for item in sorted(refused, key=lambda each: each.index):
        room -= len(msgspec.json.encode(item.reason))
        found.append(item if room >= 0 else msgspec.structs.replace(item, reason=""))
    return found


def position(parcel: PublishBatch, published: Placed) -> message.TopicPosition | None:
    """Where the messages of a parcel stand that was published as a whole; None: messaging does not say."""
    if not published.newest:
        return None
    return message.TopicPosition(
        index=parcel.indexes[0],
        service=published.service,
        generation=published.generation,
        first=published.first if len(published.stored) == len(parcel.indexes) else "",
        newest=published.newest,
    )


def envelope(node: str, stream: str, item: message.UpstreamMessage) -> bytes:
    """The payload of one message."""
    binary = item.body_base64 is not None
    found = Envelope(
        id=item.id,
        node=node,
        epoch=item.epoch,
        stream=stream,
        sequence=item.sequence,
        source=item.source,
        priority=item.priority,
        enqueued_at=item.enqueued_at,
        properties=item.properties,
        system_properties=item.system_properties,
        body=msgspec.Raw(b"null") if binary else item.body,
        body_base64=item.body_base64 if binary else msgspec.UNSET,
    )
    return msgspec.json.encode(found)
