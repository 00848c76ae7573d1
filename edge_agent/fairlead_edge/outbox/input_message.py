"""A message from the cloud as the outbox stores it."""

from __future__ import annotations

import msgspec

from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queue_id import QueueId
from fairlead_edge.outbox.receipts import mark
from fairlead_edge.routes.sink import Sink
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link import codec


def entry(header: message.Input, content: bytes, *, node: str) -> Entry:
    """Raises ``FrameTooLarge`` or ``Malformed``: the hub sent what no module could read."""
    plain = codec.unpack(header.encoding, content, message.INPUT_BYTES_MAX)
    if codec.nesting(plain) > codec.NESTING_MAX:
        raise Malformed(f"the message is nested deeper than {codec.NESTING_MAX} levels")
    try:
        found = envelope.read(plain)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"the message cannot be read: {error}") from None
    if found.id != header.message or mark.is_reserved(found.id):
        raise Malformed("the message has another id than its frame")
    if (found.body is msgspec.UNSET) == (found.body_base64 is msgspec.UNSET):
        raise Malformed("the message needs exactly one of body and bodyBase64")
    queue = QueueId(Sink(module=header.module, input=header.input).endpoint(node))
    stored = envelope.stored(found)
    return Entry(found.id, stored, (Reference(queue, header.ttl_seconds),), mark.of(stored))
