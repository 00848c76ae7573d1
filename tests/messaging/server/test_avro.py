"""The seed's Avro bodies over HTTP: the same service, byte for byte its schemas."""

from __future__ import annotations

from typing import Any

import fastavro
import pytest
from tests.support.topics.messaging import Topics

from fairlead_messaging.api.errors import BodyTooLarge, Refused
from fairlead_messaging.server import avro, validation

AVRO = {"Content-Type": "avro/binary"}


def varint(number: int) -> bytes:
    """Avro's zigzag integers, written down once more so that the test does not trust the library."""
    number = (number << 1) ^ (number >> 63)
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def avro_bytes(raw: bytes) -> bytes:
    return varint(len(raw)) + raw


def publish_request(pointer: int | None, *messages: bytes) -> bytes:
    head = varint(1) if pointer is None else varint(0) + varint(pointer)
    items = varint(len(messages)) + b"".join(map(avro_bytes, messages)) if messages else b""
    return head + items + varint(0)


MANY = 1_000_000
ROOM = MANY * validation.MESSAGE_OVERHEAD_BYTES - 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "blocks",
    [
        varint(16 * MANY) + bytes(100),
        (varint(1) + b"\0") * MANY,
        (varint(-1) + varint(1) + b"\0") * MANY,
        varint(MANY) + bytes(MANY),
    ],
    ids=["claimed", "single blocks", "sized blocks", "one block"],
)
def test_too_many_messages_are_refused_before_they_are_objects(blocks: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty one takes a byte of the body and two hundred in memory."""

    def decode(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(fastavro, "schemaless_reader", decode)
    with pytest.raises(BodyTooLarge):
        avro.publish_body(varint(1) + blocks + bytes(max(0, 2 * MANY - len(blocks))) + varint(0), {}, ROOM)


@pytest.mark.parametrize(
    "blocks",
    [
        (varint(-2) + varint(4) + avro_bytes(b"a") + avro_bytes(b"b")) + varint(1) + avro_bytes(b"c") + varint(0),
        varint(3) + b"".join(map(avro_bytes, (b"a", b"b", b"c"))) + varint(0),
    ],
    ids=["blocks with sizes", "one block"],
)
def test_counting_messages_does_not_change_what_is_read(blocks: bytes) -> None:
    for bytes_max in (3 * validation.MESSAGE_OVERHEAD_BYTES, 2**40):
        assert avro.publish_body(varint(1) + blocks, {}, bytes_max).messages == [b"a", b"b", b"c"]


@pytest.mark.parametrize("body", [b"\xff" * 20, varint(1) + varint(-1) + varint(-9), varint(0), b""])
def test_what_is_no_avro_is_refused_by_the_decoder(body: bytes) -> None:
    with pytest.raises(Refused):
        avro.publish_body(body, {}, 0 if len(body) < 2 else len(body) * 256 - 1)


def consume_request(start: bytes | int | None = None, inclusive: bool = True, limit: int | None = None) -> bytes:
    if start is None:
        head = varint(2)
    elif isinstance(start, int):
        head = varint(1) + varint(start)
    else:
        head = varint(0) + avro_bytes(start)
    return head + bytes([inclusive]) + (varint(1) if limit is None else varint(0) + varint(limit)) + varint(1)


def read_varint(raw: bytes) -> tuple[int, bytes]:
    number, shift = 0, 0
    while True:
        byte, raw = raw[0], raw[1:]
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), raw


def consumed(raw: bytes) -> list[tuple[bytes, bytes]]:
    """(id, payload) of a consume response."""
    found = []
    count, raw = read_varint(raw)
    while count:
        for _ in range(count):
            pair = []
            for _ in range(2):
                size, raw = read_varint(raw)
                pair.append(raw[:size])
                raw = raw[size:]
            found.append((pair[0], pair[1]))
        count, raw = read_varint(raw)
    assert raw == b""
    return found


async def post(topics: Topics, verb: str, raw: bytes, **query: str) -> Any:
    return await topics.ok("POST", f"topics/t/{verb}", raw, headers=AVRO, params=query)


async def test_publish_and_poll(topics: Topics) -> None:
    assert await post(topics, "publish", publish_request(None, b"a", b"\x00\xff")) == b""
    found = consumed(await post(topics, "poll", consume_request()))
    assert [payload for _, payload in found] == [b"a", b"\x00\xff"]
    assert [len(message_id) for message_id, _ in found] == [20, 20]
    assert consumed(await post(topics, "poll", consume_request(found[0][0], inclusive=False))) == found[1:]
    assert consumed(await post(topics, "poll", consume_request(topics.clock.now_ms, limit=1))) == found[:1]
    assert consumed(await post(topics, "poll", consume_request(topics.clock.now_ms + 1))) == []


async def test_transactional_publish_store_and_rollback(topics: Topics) -> None:
    pointer, _ = await topics.start()
    await post(topics, "store", publish_request(pointer, b"s"))
    detail = await post(topics, "publish", publish_request(pointer))
    mixed = await topics.ask("POST", "topics/t/publish", publish_request(pointer, b"mixed"), headers=AVRO)
    assert (mixed.status, mixed.code) == (400, "stored_already")
    await post(topics, "store", publish_request(pointer, b"kept"))
    kept = await post(topics, "publish", publish_request(pointer))
    assert read_varint(detail[1:])[0] == pointer
    assert kept != detail
    await post(topics, "rollback", detail)
    await topics.finish(pointer, "commit")
    assert await topics.committed("t") == ["kept"]


async def test_extensions_are_query_parameters(topics: Topics) -> None:
    query = {"producer_id": "p", "epoch": "1", "sequence": "4", "ttl": "1"}
    for _ in range(2):
        answer = await post(topics, "publish", publish_request(None, b"a"), **query)
    assert answer == {"producer": {"stored": [], "known": [4]}}
    query = {"producer_id": "p", "epoch": "1", "sequences": "9,4", "ttl": "1"}
    answer = await post(topics, "publish", publish_request(None, b"a", b"a"), **query)
    assert answer == {"producer": {"stored": [9], "known": [4]}}
    pointer, _ = await topics.start()
    await post(topics, "publish", publish_request(pointer, b"b"))
    assert len(consumed(await post(topics, "poll", consume_request()))) == 3
    assert len(consumed(await post(topics, "poll", consume_request(), isolation="read_committed", wait_ms="1"))) == 2
    topics.clock.forward(1001)
    assert [payload for _, payload in consumed(await post(topics, "poll", consume_request()))] == [b"b"]


@pytest.mark.parametrize("verb", ["publish", "store", "rollback", "poll"])
@pytest.mark.parametrize(
    "raw", [b"", b"\x02", b"\xff" * 20, b"\x04\x04\x04\x04", b"{}", publish_request(None, b"a") + b"x"]
)
async def test_damaged_bodies_are_refused(topics: Topics, verb: str, raw: bytes) -> None:
    assert (await topics.ask("POST", f"topics/t/{verb}", raw, headers=AVRO)).status == 400


@pytest.mark.parametrize(
    "query",
    [
        {"ttl": "0"},
        {"ttl": "x"},
        {"producer_id": "p"},
        {"sequence": "1"},
        {"sequences": "1"},
        {"epoch": "1"},
        {"fence": "true"},
        {"producer_id": "p", "epoch": "x", "sequence": "1"},
        {"producer_id": "p", "epoch": "1", "sequences": "1,"},
    ],
)
async def test_bad_query_parameters_are_refused(topics: Topics, query: dict[str, str]) -> None:
    answer = await topics.ask("POST", "topics/t/publish", publish_request(None, b"a"), headers=AVRO, params=query)
    assert answer.status == 400


@pytest.mark.parametrize("size", [19, 21, 0])
async def test_ids_have_20_bytes(topics: Topics, size: int) -> None:
    assert (await topics.ask("POST", "topics/t/poll", consume_request(bytes(size)), headers=AVRO)).status == 400
