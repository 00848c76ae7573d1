"""One message as bytes: how it is stored, how it travels, how a module at the edge gets it.

    published ─stored▶ {"id","source","enqueuedAt","properties","systemProperties","body" | "bodyBase64"}
                           ├─upstream▶ {"topic","epoch","sequence","priority", … the same bytes …}
                           └─leased▶   {"id", "priority", …}

The stored object is what all its references share; what differs by reference is put in front of it without
decoding it, so a body is parsed once, when it is published.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.queue_id import QueueId, base

_encode = msgspec.json.encode


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What lies in ``bodies``; field names are those of ``fairlead_wire.message.UpstreamMessage``."""

    id: str
    source: str
    enqueued_at: str
    properties: dict[str, str | None]
    system_properties: dict[str, str | None]
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    body_base64: str | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.json.Decoder(StoredMessage)


def stored(message: StoredMessage) -> bytes:
    return _encode(message)


def read(content: bytes) -> StoredMessage:
    return _decoder.decode(content)


def upstream(queue: QueueId, items: Iterable[Item]) -> bytes:
    """The content of one ``upstream`` frame: a JSON array of ``UpstreamMessage``."""
    topics: dict[str, bytes] = {}
    priority = base(queue.priority)
    parts = []
    for item in items:
        topic = topics.get(item.topic)
        if topic is None:
            topic = topics[item.topic] = _encode(item.topic)
        parts.append(
            b'{"topic":%b,"epoch":%d,"sequence":%d,"priority":%d,%b'
            % (topic, item.epoch, item.offset, priority, item.content[1:])
        )
    return b"[%b]" % b",".join(parts)
