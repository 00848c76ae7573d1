"""A message as bytes: stored once, sent with what differs by reference in front."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.queues import QueueId
from fairlead_wire import message
from fairlead_wire.errors import FrameTooLarge, Malformed
from fairlead_wire.link import codec
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
    assert envelope.stored(envelope.read(envelope.stored(MESSAGE))) == envelope.stored(MESSAGE)


def test_upstream_frame_holds_every_field_the_link_wants() -> None:
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


RUN: dict[str, Any] = {"first": 0, "last": 9, "epoch": 7, "enqueued": 5.0, "expires": 65.0, "topic": "default/t"}
QUEUE = QueueId("iothub", 3)


@pytest.mark.parametrize(
    ("queue", "change"),
    [
        (QUEUE, {"first": 1}),
        (QUEUE, {"last": 8}),
        (QUEUE, {"epoch": 6}),
        (QUEUE, {"enqueued": 5.1}),
        (QUEUE, {"expires": None}),
        (QUEUE, {"topic": "default/u"}),
        (QueueId("iothub", 4), {}),
        (QueueId("iothuc", 3), {}),
    ],
)
def test_every_field_of_a_run_and_its_queue_counts(queue: QueueId, change: dict[str, Any]) -> None:
    assert envelope.run_checksum(QUEUE, **RUN) != envelope.run_checksum(queue, **{**RUN, **change})


def test_numbers_read_back_as_floats_are_the_same() -> None:
    assert envelope.run_checksum(QUEUE, **RUN) == envelope.run_checksum(QUEUE, **{**RUN, "enqueued": 5, "expires": 65})


def test_every_single_flipped_bit_of_a_body_is_noticed() -> None:
    body = b'{"id":"a","body":{"temperature":91}}'
    sound = envelope.reference_checksum(1, 17, body)
    flipped = (body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :] for at in range(len(body)) for bit in range(8))
    assert all(envelope.reference_checksum(1, 17, each) != sound for each in flipped)
    assert sound not in {envelope.reference_checksum(1, 18, body), envelope.reference_checksum(2, 17, body)}


ID = "0123456789abcdef" * 2
HEADER = message.Input(id=1, message=ID, module="camera", input="commands", ttl_seconds=60.0)
STORED = {
    "id": ID,
    "source": "/fairlead/cloud",
    "enqueuedAt": "2026-11-23T10:00:00Z",
    "properties": {"a": "b"},
    "systemProperties": {},
    "body": {"do": 1},
}


def test_it_goes_into_the_queue_of_the_input() -> None:
    encoding, content = codec.pack(msgspec.json.encode(STORED) + b" " * 300)
    entry = envelope.input_entry(msgspec.structs.replace(HEADER, encoding=encoding), content, node="edge-1")
    [to] = entry.references
    assert (entry.id, to.queue, to.ttl_seconds) == (ID, QueueId("edge-1/camera/commands"), 60.0)
    found = envelope.read(entry.content)
    assert isinstance(found.body, msgspec.Raw)
    assert (bytes(found.body), found.properties) == (b'{"do":1}', {"a": "b"})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 5000,
        msgspec.json.encode({**STORED, "id": "f" * 32}),
        msgspec.json.encode({**STORED, "bodyBase64": "AA=="}),
        msgspec.json.encode({key: value for key, value in STORED.items() if key != "body"}),
        msgspec.json.encode({**STORED, "properties": {"a": 1}}),
    ],
)
def test_what_no_module_could_read_is_refused(content: bytes) -> None:
    with pytest.raises(Malformed):
        envelope.input_entry(HEADER, content, node="edge-1")


def test_it_is_bounded_before_it_is_unpacked() -> None:
    encoding, bomb = codec.pack(b" " * (message.INPUT_BYTES_MAX + 1))
    for header, content in (
        (msgspec.structs.replace(HEADER, encoding=encoding), bomb),
        (HEADER, b" " * (message.INPUT_BYTES_MAX + 1)),
    ):
        with pytest.raises(FrameTooLarge):
            envelope.input_entry(header, content, node="edge-1")


def test_an_id_that_no_message_has_is_refused() -> None:
    """Receipts use that id for what is not a message."""
    nothing = "0" * 32
    content = msgspec.json.encode({**STORED, "id": nothing})
    with pytest.raises(Malformed):
        envelope.input_entry(msgspec.structs.replace(HEADER, message=nothing), content, node="edge-1")
