"""A message as bytes: stored once, sent with what differs by reference in front."""

from __future__ import annotations

import msgspec

from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.queues import QueueId
from fairlead_wire.message import UpstreamMessage

MESSAGE = envelope.StoredMessage(
    id="a1",
    source="/messages/modules/m/outputs/o",
    enqueued_at="2026-11-20T12:00:00.000Z",
    properties={"p": None, "q": 'quo"te'},
    system_properties={"contentType": "application/json"},
    body=msgspec.Raw(b'{"t": 21.50}'),
)


def test_stored_message_is_read_back() -> None:
    """Body and all."""
    assert envelope.stored(envelope.read(envelope.stored(MESSAGE))) == envelope.stored(MESSAGE)


def test_upstream_frame_holds_every_field_the_link_wants() -> None:
    """Topic, epoch and sequence come from the reference, priority from the queue, the body byte for byte."""
    item = Item(17, 2**53 - 1, 'default/"odd"', 0, None, envelope.stored(MESSAGE))
    binary = msgspec.structs.replace(MESSAGE, id="a2", body=msgspec.UNSET, body_base64="AP8=")
    other = Item(18, 7, "default/t", 0, None, envelope.stored(binary))
    content = envelope.upstream(QueueId("iothub", 3), [item, other])
    first, second = msgspec.json.decode(content, type=list[UpstreamMessage])
    assert (first.topic, first.epoch, first.sequence, first.priority) == ('default/"odd"', 2**53 - 1, 17, 3)
    assert (first.id, first.source, first.enqueued_at) == (MESSAGE.id, MESSAGE.source, MESSAGE.enqueued_at)
    assert (first.properties, first.system_properties) == (MESSAGE.properties, MESSAGE.system_properties)
    assert (bytes(first.body), first.body_base64) == (b'{"t": 21.50}', None)
    assert (second.sequence, bytes(second.body), second.body_base64) == (18, b"null", "AP8=")
