"""A message as bytes: as stored, as sent upstream, as leased to a module, and as received from the cloud.

    published ─stored▶ {"id","source","enqueuedAt","properties","systemProperties","body" | "bodyBase64"}
                           ├─upstream▶ {"topic","epoch","sequence","priority", … the same bytes …}
                           └─leased▶   {"id", "priority", …}

All references of a message share the stored object; fields that differ by reference are put in front of it without
decoding it, so a body is parsed only once, when it is published.

Checksums cover what was accepted; a message is readable only if they match:

run        CRC-32 of what the references of one request to one queue share, and of the queue's name
expiry     CRC-32 of the run's checksum and of the expiry time, for runs that inherit their time to live
reference  CRC-32 of its run's checksum, its offset, and its body
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import msgspec

from fairlead_edge.checksum import of_row
from fairlead_edge.outbox.outbox import Entry, Item, Reference
from fairlead_edge.outbox.queues import QueueId, base
from fairlead_edge.outbox.receipts import marks
from fairlead_edge.routes.endpoints import Sink
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link import codec

_encode = msgspec.json.encode


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message in its stored form; field names are those of ``fairlead_wire.message.UpstreamMessage``."""

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


# ---- checksums -------------------------------------------------------------------------------------------------------


def run_checksum(
    queue: QueueId,
    *,
    first: int,
    last: int,
    epoch: int,
    enqueued: float,
    expires: float | None,
    topic: str,
    inherits: str | None = None,
) -> int:
    """The checksum of what never changes in a run; times are seconds of the store's clock.

    If the run inherits its time to live, ``expires`` is not part of it: ``expiry_checksum`` covers that.
    """
    until = None if expires is None else float(expires)
    named = (queue.endpoint, queue.priority, first, last, epoch, float(enqueued))
    return of_row(*named, until, topic) if inherits is None else of_row(*named, topic, "inherits", inherits)


def expiry_checksum(run: int, expires: float | None) -> int:
    """The checksum of the expiry time of a run whose own checksum is ``run``."""
    return of_row(run, None if expires is None else float(expires))


def reference_checksum(run: int, offset: int, body: bytes) -> int:
    """The checksum of one reference; ``run`` is that of its run."""
    return zlib.crc32(body, zlib.crc32(b"%d %d" % (run, offset)))


def input_entry(header: message.Input, packed: bytes, *, node: str) -> Entry:
    """A message from the cloud as the outbox stores it.

    Raises ``FrameTooLarge`` or ``Malformed`` if the hub sent something that no module could read.
    """
    plain = codec.unpack(header.encoding, packed, message.INPUT_BYTES_MAX)
    if codec.nesting(plain) > codec.NESTING_MAX:
        raise Malformed(f"the message is nested deeper than {codec.NESTING_MAX} levels")
    try:
        found = read(plain)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"the message cannot be read: {error}") from None
    if found.id != header.message or marks.is_reserved(found.id):
        raise Malformed("the id of the message differs from the id of its frame")
    if (found.body is msgspec.UNSET) == (found.body_base64 is msgspec.UNSET):
        raise Malformed("the message needs exactly one of body and bodyBase64")
    queue = QueueId(Sink(module=header.module, input=header.input).endpoint(node))
    content = stored(found)
    return Entry(found.id, content, (Reference(queue, header.ttl_seconds),), marks.of(content))
