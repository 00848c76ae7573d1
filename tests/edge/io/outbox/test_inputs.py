"""Messages from the cloud on a real store: durable before the ack, once, and leased like any other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.support.edges.upstream import FakeHub, open_upstream

from fairlead_edge.errors import Moving, StoreFailed
from fairlead_edge.io.outbox.upstream import UpstreamService
from fairlead_wire import message

ENDPOINT = "{node}/camera/commands"


@pytest.fixture
async def upstream(tmp_path: Path) -> AsyncIterator[UpstreamService]:
    opened = open_upstream(tmp_path / "outbox.db", FakeHub())
    yield opened
    if opened.outbox.writer.failure is None:
        await opened.outbox.close()


def frame(number: int, *, ttl: float = 60.0, body: object = 1) -> tuple[message.Input, bytes]:
    id = f"{number:032x}"
    stored = {
        "id": id, "source": "/fairlead/cloud", "enqueuedAt": "", "properties": {}, "systemProperties": {}, "body": body,
    }  # fmt: skip
    header = message.Input(id=number, message=id, module="camera", input="commands", ttl_seconds=ttl)
    return header, msgspec.json.encode(stored)


async def state(upstream: UpstreamService, number: int) -> list[str]:
    return [each["state"] for each in msgspec.json.decode(await upstream.inputs.states([f"{number:032x}"]))]


async def test_a_message_is_leased_and_acknowledged_once_however_often_it_comes(upstream: UpstreamService) -> None:
    for _ in range(3):
        assert await upstream.inputs.take(*frame(1)) == message.Ack(parent_id=1)
    endpoint = ENDPOINT.format(node=upstream.node)
    [leased] = await upstream.broker.take(endpoint, messages_max=10, wait_seconds=0.0)
    assert (leased.id, leased.attempt, bytes(leased.message.body)) == (f"{1:032x}", 1, b"1")  # type: ignore[arg-type]
    assert await state(upstream, 1) == ["delivered"]
    assert await upstream.broker.ack(endpoint, [leased.id]) == []
    assert await state(upstream, 1) == ["consumed"] and await state(upstream, 2) == []
    assert isinstance(await upstream.inputs.take(*frame(1)), message.Ack)
    assert await upstream.broker.take(endpoint, messages_max=10, wait_seconds=0.0) == []


async def test_a_known_one_stays_known_when_the_store_is_opened_again(tmp_path: Path) -> None:
    first = open_upstream(tmp_path / "outbox.db", FakeHub())
    await first.inputs.take(*frame(1))
    await first.outbox.close()
    second = open_upstream(tmp_path / "outbox.db", FakeHub())
    assert isinstance(await second.inputs.take(*frame(1)), message.Ack)
    status = await second.status()
    assert [queue.accepted for queue in status.queues] == [1]
    await second.outbox.close()


async def test_what_cannot_be_read_is_refused_for_good(upstream: UpstreamService) -> None:
    header, _ = frame(1)
    refused = await upstream.inputs.take(header, b"nothing")
    assert isinstance(refused, message.Nack) and (refused.code, refused.permanent) == ("bad_message", True)
    upstream.publisher.close(Moving())
    later = await upstream.inputs.take(*frame(2))
    assert isinstance(later, message.Nack) and (later.code, later.permanent) == ("not_now", False)
    assert later.retry_after


async def test_a_full_store_asks_for_later(upstream: UpstreamService) -> None:
    upstream.outbox.max_bytes = 10
    full = await upstream.inputs.take(*frame(1))
    assert isinstance(full, message.Nack) and (full.code, full.permanent) == ("store_full", False)
    upstream.outbox.max_bytes = 1 << 20
    assert isinstance(await upstream.inputs.take(*frame(1)), message.Ack)


async def test_a_failed_disk_is_no_answer(upstream: UpstreamService, monkeypatch: pytest.MonkeyPatch) -> None:

    async def broken(_: object) -> bool:
        raise StoreFailed("the disk failed")

    monkeypatch.setattr(upstream.outbox.writer, "submit", broken)
    with pytest.raises(StoreFailed):
        await upstream.inputs.take(*frame(1))
    monkeypatch.undo()
