"""What a node's receipts say of a table that a real job fills, against the table itself."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.support.edges.upstream import FakeHub, body, open_upstream
from tests.support.topics.messaging_service import MessagingService

from fairlead_edge.io.outbox import receipts
from fairlead_hub import publish_batch
from fairlead_hub.io.messaging import table_positions
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.receipt import TableReceipts
from fairlead_messaging.api.requests import Producer
from fairlead_messaging.client.io.sync_client import Client
from fairlead_wire import message

COUNT = 20


class Hub(FakeHub):
    """Publishes as a hub does, into a real service, and asks its readers."""

    def __init__(self, service: MessagingService, topic: str) -> None:
        super().__init__()
        self._client, self._topic = Client(service.url), topic
        self.answer = self._publish

    def _publish(self, stream: str, batch: list[message.UpstreamMessage]) -> message.Ack:
        header = message.Upstream(id=1, stream=stream, positions=True)
        plan = publish_batch.plan("edge-1", header, msgspec.json.encode(batch), frozenset((self._topic,)))
        publishing = publish_batch.Publishing(header, plan, publish_batch.Order())
        [topic_batch] = plan.topic_batches
        producer = Producer(id=topic_batch.producer, epoch=topic_batch.epoch, sequences=topic_batch.sequences)
        namespace, _, name = self._topic.partition("/")
        placed = self._client.publish(namespace, name, topic_batch.payloads, producer=producer)
        publishing.stored(topic_batch, placed)
        answer = publishing.answer()
        assert isinstance(answer, message.Ack) and answer.positions
        return answer

    def look(self) -> None:
        namespace, _, name = self._topic.partition("/")
        told = table_positions.tables_of(self._topic, self._client.readers(namespace, name))
        self.tables = [told] if told is not None else []


@pytest.mark.verify
async def test_receipts_of_the_node_and_of_the_table_agree(run, messaging, topic, tmp_path, monkeypatch):
    """The position is the row's id, the batch has it or one before, and a dead letter beside it takes no row's word."""
    monkeypatch.setattr(receipts, "ASK_SECONDS", 0.01)
    hub = Hub(messaging, topic)
    upstream = open_upstream(tmp_path / "outbox.db", hub)
    task = asyncio.create_task(upstream.run())
    hub.connect()

    async def publish() -> list[str]:
        said = [{"properties": {"topic": topic}}] * COUNT
        answer = await upstream.publisher.publish(body(*said))
        ids = [each["id"] for each in msgspec.json.decode(answer.body)["results"]]
        for id in ids:
            await upstream.receipts.ask(bytes.fromhex(id), author=None, wait_seconds=60.0, until="in_topic")
        return ids

    try:
        first = await publish()
        await asyncio.to_thread(lambda: run().observe())
        hub.look()
        await upstream.receipts.ask(bytes.fromhex(first[-1]), author=None, wait_seconds=60.0)
        messaging.publish(topic, [b"not json"])
        second = await publish()
        await asyncio.to_thread(lambda: run().observe())
        hub.look()
        for id in first + second:
            found = await upstream.receipts.ask(bytes.fromhex(id), author=None, wait_seconds=60.0)
            row = TableReceipts(tables.of("delta"), tmp_path / "rows", id).find()
            assert found is not None and row is not None and found["state"] == "in_table"
            assert (found["in_topic"]["topic"], found["in_topic"]["position"]) == (row["_topic"], row["_id"])
            assert row["_batch"] <= found["in_table"]["batch"]
            assert found["in_table"]["table"] == str(tmp_path / "rows") and found["in_table"]["row"] is None
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await upstream.outbox.close()
