"""What is sent to a node, and what is not, one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.support.hubs.input_line import InputLine

from fairlead_hub.inputs import node_queue, submission
from fairlead_hub.inputs.submission import StoredInput
from fairlead_hub.io.inputs import delivery
from fairlead_wire import message
from fairlead_wire.link import codec


@pytest.fixture
async def line(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[InputLine]:
    monkeypatch.setattr(delivery, "RETRY_SECONDS", 0.001)
    opened = InputLine()
    yield opened
    opened.close()


def kept(*, ttl: float = 60.0) -> StoredInput:
    return StoredInput(
        id="a" * 32, node="edge-1", uid="", module="m", input="i", expires=ttl,
        message=msgspec.Raw(msgspec.json.encode({"body": "x" * 1000})),
    )  # fmt: skip


def test_a_frame_carries_what_is_left_of_the_time() -> None:
    """Packed where that pays, never more than the edge takes."""
    make, content = delivery.frame(kept(), 12.5)
    header = make(7)
    assert (header.id, header.ttl_seconds, header.encoding) == (7, 12.5, "zstd")
    assert codec.unpack(header.encoding, content) == bytes(kept().message)
    assert delivery.frame(kept(), 1e9)[0](7).ttl_seconds == message.INPUT_TTL_SECONDS_MAX
    codec.decode_from_hub(codec.encode(header, content))


async def test_messages_of_others_in_the_topic_are_ignored(line: InputLine) -> None:
    """And said in the log, not delivered; what is behind it is."""
    await line.messaging.create_topic("system", "inputs-edge-1")
    await line.messaging.publish("system", "inputs-edge-1", [b"nonsense", submission.encode(kept()) + b"x"])
    line.connect()
    await line.send("a")
    await line.settle(lambda: bool(line.node.put))
    assert line.node.put == ["a"]


async def test_a_topic_that_others_fill_does_not_fill_the_hub(line: InputLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read on when there is room."""
    monkeypatch.setattr(delivery, "READ_MAX", 5)
    monkeypatch.setattr(node_queue, "MESSAGES_MAX", 10**6)
    for number in range(3):
        await line.send(str(number))
    every = list(line.messaging.logs["inputs-edge-1"])
    for number in range(40):
        body = msgspec.json.encode({**msgspec.json.decode(every[0].payload), "id": f"{number:032x}"})
        await line.messaging.publish("system", "inputs-edge-1", [body])
    line.new_hub()
    line.connect()
    await line.settle(lambda: len(line.node.put) >= 1)
    assert line.inputs.waiting <= 5 + 16
    await line.settle(lambda: len(line.node.put) == 43)
    assert len(line.node.put) == 43


async def test_a_message_that_messaging_lost_is_expired(line: InputLine) -> None:
    """Its clock is ahead of ours."""
    sent = await line.send("a")
    await line.settle(lambda: line.inputs.waiting == 1)
    line.messaging.logs["inputs-edge-1"].clear()
    line.connect()
    await line.settle(lambda: line.counts.inputs["expired"] == 1)
    found = await line.state(sent.id)
    assert found is not None and found.state == "expired"


async def test_inputs_do_not_wait_for_each_other(line: InputLine) -> None:
    """Each has its own order."""
    line.node.answers = False
    for input in "abc":
        await line.send(input, input=input)
        await line.send(f"{input}2", input=input)
    line.connect()
    await line.settle(lambda: len(line.node.put) == 3)
    assert line.node.put == ["a", "b", "c"]
    line.node.answers = True
    line.connect()
    await line.settle(lambda: len(line.node.put) == 6)
    assert [sorted(line.node.put[3:]), line.node.put[:3]] == [["a2", "b2", "c2"], ["a", "b", "c"]]
