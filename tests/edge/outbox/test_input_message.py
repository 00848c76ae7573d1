"""A message from the cloud as the outbox stores it."""

from __future__ import annotations

import msgspec
import pytest

from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.queues import QueueId
from fairlead_wire import message
from fairlead_wire.errors import FrameTooLarge, Malformed
from fairlead_wire.link import codec

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
    """As a route to the same input would put it, with what is left of its time."""
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
    """Whatever the hub sends."""
    with pytest.raises(Malformed):
        envelope.input_entry(HEADER, content, node="edge-1")


def test_it_is_bounded_before_it_is_unpacked() -> None:
    """A bomb, and a plain one that is too long."""
    encoding, bomb = codec.pack(b" " * (message.INPUT_BYTES_MAX + 1))
    for header, content in (
        (msgspec.structs.replace(HEADER, encoding=encoding), bomb),
        (HEADER, b" " * (message.INPUT_BYTES_MAX + 1)),
    ):
        with pytest.raises(FrameTooLarge):
            envelope.input_entry(header, content, node="edge-1")


def test_an_id_that_no_message_has_is_refused() -> None:
    """Receipts keep it for what is no message."""
    nothing = "0" * 32
    content = msgspec.json.encode({**STORED, "id": nothing})
    with pytest.raises(Malformed):
        envelope.input_entry(msgspec.structs.replace(HEADER, message=nothing), content, node="edge-1")
