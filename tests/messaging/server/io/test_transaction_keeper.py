"""What transactions need beside their commands is done without being asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.topics.messaging import b64, serving, until

from fairlead_messaging.server.io.rest.http import PUSHER
from fairlead_messaging.server.io.stores.rocksdb_kv import RocksKV
from fairlead_messaging.server.io.stores.sqlite_kv import SqliteKV
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV


@pytest.fixture(params=["memory", "sqlite", "rocksdb"])
def kv(request: pytest.FixtureRequest, tmp_path: Path) -> OrderedKV:
    if request.param == "memory":
        return MemoryKV()
    return SqliteKV(tmp_path) if request.param == "sqlite" else RocksKV(tmp_path)


def put(kv: OrderedKV, key: bytes, value: bytes) -> None:
    batch = Batch()
    batch.put(key, value)
    kv.apply(batch)


@pytest.mark.slow
async def test_without_transactions_everything_else_is_served(kv: OrderedKV) -> None:
    """All that needs them is refused alike, all else is not; a subscription waits, and goes on when they are back."""
    async with serving(kv) as topics:
        await topics.create("t")
        pointer, snapshot = await topics.start(600)
        await topics.publish("t", "inside", tx=pointer)
        await topics.ok("PUT", "topics/t/subscriptions/s", {"url": "http://127.0.0.1:1/"})
    key = keys.open_transaction(pointer)
    right = kv.get(key)
    assert right is not None
    put(kv, key, b"\xff garbled")
    async with serving(kv) as topics:
        refused = [
            await topics.ask("POST", "/v1/transactions", {}),
            await topics.finish(pointer, "commit"),
            await topics.finish(pointer, "invalidate"),
            await topics.ask("GET", "/v1/transactions"),
            await topics.ask("POST", "topics/t/publish", {"transactionWritePointer": pointer, "messages": [b64("x")]}),
            await topics.ask("POST", "topics/t/store", {"transactionWritePointer": pointer, "messages": [b64("x")]}),
            await topics.ask("POST", "topics/t/poll", {"isolation": "read_committed"}),
            await topics.ask("POST", "topics/t/poll", {"transaction": snapshot}),
            await topics.ask("POST", "topics/t/plan", {}),
            await topics.ask("GET", "topics/t/offsets?ts=latest"),
            await topics.ask("GET", "topics/t/inspect"),
        ]
        assert {(each.status, each.code) for each in refused} == {(503, "transactions_unavailable")}
        assert all("Retry-After" in each.headers for each in refused)
        await topics.publish("t", "plain")
        await topics.create("u")
        assert await topics.payloads("t") == ["inside", "plain"]
        arrow = {"Accept": "application/vnd.apache.arrow.stream"}
        for isolation, status in (("none", 200), ("read_committed", 503)):
            answer = await topics.ask("POST", "topics/t/poll", {"isolation": isolation}, headers=arrow)
            assert answer.status == status
        await topics.broker.cleaner.clean()
        ready = await topics.ok("GET", "/readyz")
        assert ready["status"] == "ready" and str(pointer) in ready["transactions"]
        text = (await topics.ok("GET", "/metrics")).decode()
        assert "fairlead_messaging_transactions_unavailable 1.0" in text
        assert 'fairlead_messaging_topic_messages{topic="default/t"} 2.0' in text
        assert "fairlead_messaging_topic_blocked_seconds{" not in text
        await until(lambda: topics.app[PUSHER].trouble(("default", "t", "s")) != "")
        put(kv, key, right)
        topics.clock.forward(1000)
        await until(lambda: topics.broker.in_progress == 1)
        assert "transactions" not in await topics.ok("GET", "/readyz")
        assert (await topics.finish(pointer, "commit")).status == 200
        assert await topics.committed("t") == ["inside", "plain"]
    kv.close()
