"""A batch of messages from an edge on its way to topics: order, allowed topics, envelope.

    upstream frame ─Order─▶ not now, with the one it follows
           └─plan─▶ refused items (with the reason) + publish calls by (topic, stream, epoch) ─Publishing─▶ ack

A topic that accepts nothing delays only its own messages: they are deferred (``Ack.deferred``), the others are stored.
The hub stamps ``node`` from the link's identity, whatever the message claims (contract section 8).

A node may publish to the topics that its EdgeRoutes name or have ever named (``TopicGrants``).  A granted topic stays
granted, even after a restart, because ``EdgeNode`` records it: a message routed before routes changed must not be
refused afterwards (contract section 8).  EdgeRoutes are therefore held back until ``EdgeNode`` names their topics
(``unwritten``).  Fairlead's own topics are never granted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.placement import Placement
from fairlead_messaging.api.responses import Placed
from fairlead_wire import event, message
from fairlead_wire.errors import Malformed
from fairlead_wire.link import codec, peer_json

MESSAGES_MAX = 512
"""Messages per batch; more break the protocol.  Our edges send 256, and an ack must have room for as many refusals."""
REASONS_BYTES_MAX = codec.HEADER_BYTES_MAX // 3
"""Size of an ack's header for reasons; the rest holds indexes, codes and positions."""
DEFERRED_MAX = 64
"""Topics per ack; if more accept nothing, the whole batch is put off."""
BEHIND = "behind_put_off"
"""Code for batches that follow one that was put off."""
POSITIONS_MAX = 64
"""Positions per ack; if a batch goes to more topics, the others have none."""

_messages = msgspec.json.Decoder(list[message.UpstreamMessage])


class TopicPayload(msgspec.Struct, kw_only=True):
    """The payload in the topic, field by field as contract section 8 lists them.

    If the body is not JSON text, ``body`` is null and the bytes are sent in base64.
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
    """The index of each message in the batch."""

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
    """The order of one stream in one session: what was sent after something that was put off is put off, too.

    So a topic contains a stream's messages in the order they were accepted, whatever failed.  Either a whole batch is
    put off, or one topic of it: then the edge sends that topic's messages separately, as a stream with its own order,
    until it has caught up.  When the edge has waited for all answers it says so: that batch follows nothing, and
    nothing is put off any more.
    """

    __slots__ = ("deferred", "put_off")

    def __init__(self) -> None:
        self.put_off: message.Nack | None = None
        """The "not now" answer that the stream is waiting for."""
        self.deferred: dict[str, message.Deferred] = {}
        """By topic, the same for its messages only."""

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to remember about it."""
        return self.put_off is None and not self.deferred

    def judge(self, header: message.Upstream) -> message.Nack | None:
        """None: publish the batch and report the result with ``answered``.  Otherwise the answer."""
        if not header.follows:
            self.put_off = None
            self.deferred.clear()
        if self.put_off is None:
            return None
        reason = f"the batch before it was put off: {self.put_off.reason}"
        return message.Nack(
            parent_id=header.id,
            code=BEHIND,
            reason=reason,
            retry_after=self.put_off.retry_after,
            scope=self.put_off.scope,
        )

    def answered(self, answer: message.Ack | message.Nack) -> None:
        self.put_off = answer if isinstance(answer, message.Nack) else None


class PublishPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with one batch."""

    topic_batches: list[PublishBatch]
    refused: list[message.RefusedItem]
    count: int


def plan(node: str, header: message.Upstream, content: bytes, granted: frozenset[str]) -> PublishPlan:
    """Raises ``Malformed`` for an invalid batch; a message that must not be stored is refused individually."""
    text = codec.unpack(header.encoding, content)
    try:
        text.decode()  # the decoder below does not decode bodies, and topics hold JSON
    except UnicodeDecodeError as error:
        raise Malformed(f"upstream batch is not UTF-8: {error.reason} at byte {error.start}") from None
    batch = peer_json.decode(_messages, text)
    if len(batch) > MESSAGES_MAX:
        raise Malformed(f"upstream batch of {len(batch)} messages is over the limit of {MESSAGES_MAX}")
    topic_batches: dict[tuple[str, int], PublishBatch] = {}
    refused = []
    for index, item in enumerate(batch):
        if header.topic and item.topic != header.topic:
            raise Malformed(f"upstream batch of topic {header.topic} has a message for {item.topic}")
        if item.topic not in granted:
            reason = f"topic {item.topic} has never been named by an EdgeRoutes object of node {node}"
            refused.append(message.RefusedItem(index=index, code="topic_not_granted", reason=reason))
            continue
        if codec.nesting(bytes(item.body)) > codec.NESTING_MAX:
            reason = f"the body is nested deeper than {codec.NESTING_MAX} levels"
            refused.append(message.RefusedItem(index=index, code="bad_body", reason=reason))
            continue
        topic_batch = topic_batches.get((item.topic, item.epoch))
        if topic_batch is None:
            # (node, epoch, stream, sequence) never repeats: the topic detects duplicates by it.
            producer = f"{node}/{header.stream}"
            topic_batch = PublishBatch(topic=item.topic, producer=producer, epoch=item.epoch)
            topic_batches[(item.topic, item.epoch)] = topic_batch
        topic_batch.add(index, item.sequence, envelope(node, header.stream, item))
    return PublishPlan(topic_batches=list(topic_batches.values()), refused=refused, count=len(batch))


class Publishing:
    """The publishing of one batch: what is published next, the results, and the answer."""

    def __init__(self, header: message.Upstream, plan: PublishPlan, order: Order) -> None:
        self._header, self._order = header, order
        self.count = plan.count
        self._todo = deque(plan.topic_batches)
        self._topic_batches = plan.topic_batches
        self.refused = list(plan.refused)
        self._done: set[int] = {each.index for each in plan.refused}
        """Stored, or permanently refused."""
        self._stored: set[int] = set()
        self._placed: dict[tuple[str, int], list[Placed]] = {}
        """By topic and epoch, in order."""
        self._deferred: dict[str, message.Deferred] = {}
        for topic_batch in plan.topic_batches:
            if (before := order.deferred.get(topic_batch.topic)) is not None:
                reason = f"messages of this topic before it were deferred: {before.reason}"
                self._deferred[topic_batch.topic] = msgspec.structs.replace(
                    before, code=BEHIND, reason=reason, in_doubt=False
                )

    def next(self) -> PublishBatch | None:
        """What to publish now; None if the batch can be answered."""
        while self._todo:
            topic_batch = self._todo.popleft()
            if topic_batch.topic not in self._deferred:
                return topic_batch
        return None

    def stored(self, topic_batch: PublishBatch, published: Placed | None) -> None:
        """It is in its topic; ``published`` is its position, or None if messaging does not return it."""
        self._done.update(topic_batch.indexes)
        self._stored.update(topic_batch.indexes)
        if published is not None:
            self._placed.setdefault((topic_batch.topic, topic_batch.epoch), []).append(published)

    def never(self, topic_batch: PublishBatch, code: str, reason: str) -> None:
        """Messaging refuses it permanently: a single message is refused, of several each half is tried."""
        if len(topic_batch.indexes) > 1:
            self._todo.extendleft(reversed(topic_batch.halves()))
            return
        self._done.update(topic_batch.indexes)
        self.refused.append(message.RefusedItem(index=topic_batch.indexes[0], code=code, reason=reason))

    def defer(self, topic: str, code: str, reason: str, retry_after: float | None, *, in_doubt: bool = False) -> None:
        """The topic accepts nothing now: the rest of it, and what follows in this stream, is sent again."""
        reason = reason[: message.REASON_CHARS_MAX]
        self._deferred[topic] = message.Deferred(
            index=0, code=code, reason=reason, retry_after=retry_after, in_doubt=in_doubt
        )

    @property
    def deferred_codes(self) -> list[str]:
        """Why topics were deferred, one code per topic."""
        return [each.code for each in self._deferred.values()]

    @property
    def stored_count(self) -> int:
        """Messages that are in their topics."""
        return len(self._stored)

    def answer(self) -> message.Ack | message.Nack:
        """The answer, once nothing is left to publish."""
        deferred = self._left()
        if len(deferred) > DEFERRED_MAX:
            reason = f"{len(deferred)} topics accept nothing now; the first: {deferred[0].reason}"
            return self.put_off(
                message.Nack(
                    parent_id=self._header.id, code=deferred[0].code, reason=reason, retry_after=deferred[0].retry_after
                )
            )
        for topic, each in self._deferred.items():
            self._order.deferred.setdefault(topic, each)
        reasons = Reasons()
        return message.Ack(
            parent_id=self._header.id,
            refused=[
                msgspec.structs.replace(each, reason=reasons.shortened(each.reason))
                for each in sorted(self.refused, key=_index)
            ],
            deferred=[msgspec.structs.replace(each, reason=reasons.shortened(each.reason)) for each in deferred],
            positions=self._positions(),
        )

    def put_off(self, answer: message.Nack) -> message.Nack:
        """The whole batch is sent again, except for what is stored."""
        return msgspec.structs.replace(answer, stored=sorted(self._stored), positions=self._positions())

    def _left(self) -> list[message.Deferred]:
        found = []
        for topic, each in self._deferred.items():
            left = [
                index
                for topic_batch in self._topic_batches
                if topic_batch.topic == topic
                for index in topic_batch.indexes
                if index not in self._done
            ]
            if left:
                found.append(msgspec.structs.replace(each, index=min(left)))
        return sorted(found, key=_index)

    def _positions(self) -> list[message.TopicPosition]:
        if not self._header.positions:
            return []
        found = []
        for topic_batch in self._topic_batches:
            placed = self._placed.get((topic_batch.topic, topic_batch.epoch), [])
            whole = self._stored.issuperset(topic_batch.indexes) and len(placed) == 1
            if (at := _position(topic_batch, placed, is_whole=whole)) is not None:
                found.append(at)
        return found[:POSITIONS_MAX]


class Reasons:
    """The reasons in an answer: as many as its header has room for."""

    def __init__(self) -> None:
        self._room = REASONS_BYTES_MAX

    def shortened(self, reason: str) -> str:
        """The reason as it is, or "" if there is no room left."""
        self._room -= len(msgspec.json.encode(reason))
        return reason if self._room >= 0 else ""


def _index(each: message.RefusedItem | message.Deferred) -> int:
    return each.index


def _position(topic_batch: PublishBatch, placed: Sequence[Placed], *, is_whole: bool) -> message.TopicPosition | None:
    """The position of published messages; if they were published in parts, of the last part or before.

    None: messaging does not return positions, or the topic was recreated between the parts.
    """
    known = [each for each in placed if each.newest]
    if not known or len({(each.service, each.generation) for each in known}) > 1:
        return None
    latest = max(known, key=lambda each: each.newest)
    return message.TopicPosition(
        index=topic_batch.indexes[0],
        service=latest.service,
        generation=latest.generation,
        first=latest.first if is_whole and len(latest.stored) == len(topic_batch.indexes) else "",
        newest=latest.newest,
    )


def envelope(node: str, stream: str, item: message.UpstreamMessage) -> bytes:
    """The payload of one message."""
    binary = item.body_base64 is not None
    found = TopicPayload(
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


_ALWAYS = frozenset((sync_rule.DEFAULT_TOPIC,))


class TopicGrants:
    """``ever``: by node."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self.ever: dict[str, frozenset[str]] = {}
        self._written: dict[str, frozenset[str]] = {}
        """By node: the topics that its EdgeNode in the API names."""

    def unwritten(self, node: str, routes: str) -> frozenset[str]:
        """Topics of an EdgeRoutes object, given by name, that this node would not be granted after a restart."""
        found = self._placement.rules.routes.get(routes)
        if found is None or found.topics == _ALWAYS:
            return frozenset()
        return found.topics - _ALWAYS - self._written.get(node, frozenset())

    def written(self, node: str, topics: frozenset[str]) -> None:
        """The node's EdgeNode in the API names these topics; none if there is no EdgeNode."""
        if topics:
            self._written[node] = topics
        else:
            self._written.pop(node, None)

    def widen(self, node: str) -> bool:
        """Its EdgeRoutes may have changed.  Returns True if it may publish to more topics than before."""
        return self.remember(node, self._placement.rules.topics_of(node))

    def remember(self, node: str, topics: Iterable[str]) -> bool:
        """These were granted under an earlier hub.  Returns True if that is new."""
        known = self.ever.get(node, frozenset())
        wider = known.union(topic for topic in topics if not event.is_reserved(topic))
        if wider == known:
            return False
        self.ever[node] = wider
        return True

    def forget(self, node: str) -> None:
        """The Node is gone."""
        self.ever.pop(node, None)
        self._written.pop(node, None)

    def of(self, node: str) -> frozenset[str]:
        return self.ever.get(node, frozenset((sync_rule.DEFAULT_TOPIC,)))

    def topics(self) -> frozenset[str]:
        """Every topic EdgeRoutes name; they are created before anything is published."""
        found = {sync_rule.DEFAULT_TOPIC}
        for routes in self._placement.rules.routes.values():
            found |= routes.topics
        return frozenset(topic for topic in found if not event.is_reserved(topic))
