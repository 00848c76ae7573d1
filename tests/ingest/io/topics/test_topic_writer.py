"""A DataFrame into a topic, all or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.lines.flaky_proxy import FlakyProxy, flaky
from tests.support.processes import wait_until
from tests.support.topics.messaging_service import MessagingService

from fairlead_ingest import errors
from fairlead_ingest.io.spark.session import activate
from fairlead_ingest.io.topics import topic_writer
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.topic_writer import TopicWriter
from fairlead_messaging.client import transaction
from fairlead_messaging.client.io.sync_client import BulkClient, Client


def payloads(messaging: MessagingService, topic: str) -> list[bytes]:
    with BulkClient(messaging.url) as client:
        found: list[bytes] = client.poll(topic, after="").table["payload"].to_pylist()
    return found


def options(messaging: MessagingService, topics: str) -> SourceOptions:
    return SourceOptions.of({"url": messaging.url, "topics": topics})


def test_a_spark_job_publishes_at_its_commit(spark: SparkSession, messaging: MessagingService, topic: str) -> None:
    """Stored by the tasks, seen when all are done."""
    rows = spark.range(50).selectExpr("cast(id AS string) AS payload").repartition(2)
    activate(spark)
    rows.write.format("fairlead").options(url=messaging.url, topics=topic).mode("append").save()
    assert sorted(payloads(messaging, topic), key=int) == [b"%d" % number for number in range(50)]


def test_nothing_is_seen_before_the_commit_nor_after_an_abort(messaging: MessagingService, topic: str) -> None:
    """The transaction's whole point."""
    batch = pa.RecordBatch.from_pydict({"payload": pa.array([b"1", None], pa.binary())})
    given_up = TopicWriter(options(messaging, topic), ["payload"])
    given_up.write(iter([batch]))
    assert payloads(messaging, topic) == []
    given_up.abort([])
    assert payloads(messaging, topic) == []
    writer = TopicWriter(options(messaging, topic), ["payload"])
    writer.commit([writer.write(iter([batch]))])
    assert payloads(messaging, topic) == [b"1", b""]
    empty = TopicWriter(options(messaging, topic), ["payload"])
    empty.commit([empty.write(iter([])), None])
    assert len(payloads(messaging, topic)) == 2


def test_a_task_renews_while_it_computes(messaging: MessagingService, topic: str) -> None:
    """Hours may lie between two of its rows; here it is the time until the service has seen a renewal."""
    slow = SourceOptions.of({"url": messaging.url, "topics": topic, "transactionSeconds": "9"})
    writer = TopicWriter(slow, ["payload"])

    def expires() -> int:
        with Client(messaging.url) as client:
            return {each.transactionWritePointer: each.expires for each in client.transactions()}[writer._pointer]

    def rows() -> Iterator[pa.RecordBatch]:
        yield from batches(b"1")
        begun = expires()
        wait_until("a renewal", lambda: expires() > begun, seconds=120)
        yield from batches(b"2")

    writer.commit([writer.write(rows())])
    assert payloads(messaging, topic) == [b"1", b"2"]


def test_a_lost_transaction_is_told_with_its_remedy(messaging: MessagingService, topic: str) -> None:
    """At the next row, and by the driver; the reason is the service's own."""
    writer = TopicWriter(options(messaging, topic), ["payload"])
    with BulkClient(messaging.url) as client:
        client.abort(writer._pointer)
    for lost in (lambda: writer.write(batches(b"1")), lambda: writer.commit([topic_writer.TaskStored(rows=1)])):
        with pytest.raises(errors.Stop, match=r"^FAIRLEAD_TRANSACTION_LOST: .*is aborted; no reader .*write it again"):
            lost()
    assert payloads(messaging, topic) == []


def test_requests_are_bounded(messaging: MessagingService, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task of any size stores in portions."""
    monkeypatch.setattr(topic_writer, "STORE_ROWS", 2)
    writer = TopicWriter(options(messaging, topic), ["payload"])
    batch = pa.RecordBatch.from_pydict({"payload": [b"%d" % number for number in range(5)]})
    writer.commit([writer.write(iter([batch]))])
    assert payloads(messaging, topic) == [b"%d" % number for number in range(5)]


async def test_a_commit_whose_answer_was_lost_has_not_failed(messaging: MessagingService, topic: str) -> None:
    """A failure would make Spark's user write everything again."""
    async with flaky(messaging.port) as between:
        writer = await asyncio.to_thread(through, between, topic)
        stored = await asyncio.to_thread(writer.write, batches(b"1"))
        between.lose(3, containing=b"/commit")
        await asyncio.to_thread(writer.commit, [stored])
        assert between.lost == 3
    assert payloads(messaging, topic) == [b"1"]


async def test_a_publish_of_what_was_stored_may_lose_its_answer(messaging: MessagingService, topic: str) -> None:
    """Published again it shows nothing twice."""
    async with flaky(messaging.port) as between:
        writer = await asyncio.to_thread(through, between, topic)
        stored = await asyncio.to_thread(writer.write, batches(b"1", b"2"))
        between.lose(1, containing=b"/publish")
        await asyncio.to_thread(writer.commit, [stored])
        assert between.lost == 1
    assert payloads(messaging, topic) == [b"1", b"2"]


@pytest.mark.process
async def test_a_service_killed_before_it_answered_a_commit_is_asked_again(tmp_path: Path) -> None:
    """It is committed or still open then; either way the write is whole, once."""
    with MessagingService(tmp_path / "messaging") as service:
        service.create("default/killed")
        async with flaky(service.port) as between:
            writer = await asyncio.to_thread(through, between, "default/killed")
            stored = await asyncio.to_thread(writer.write, batches(b"1"))
            between.lose(1_000_000, containing=b"/commit")
            committing = asyncio.create_task(asyncio.to_thread(writer.commit, [stored]))
            await asyncio.to_thread(wait_until, "an answer was lost", lambda: between.lost, seconds=120)
            await asyncio.to_thread(service.kill)
            between.lose(0)
            await asyncio.to_thread(service.start)
            await committing
        assert payloads(service, "default/killed") == [b"1"]


async def test_a_commit_that_cannot_be_confirmed_is_named(
    messaging: MessagingService, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as a failure: the rows may be there, and the reason says where to look."""
    monkeypatch.setattr(transaction, "COMMIT_PAUSES_SECONDS", (0.0,))
    async with flaky(messaging.port) as between:
        writer = await asyncio.to_thread(through, between, topic)
        stored = await asyncio.to_thread(writer.write, batches(b"1"))
        between.lose(1_000_000, containing=b"/commit")
        with pytest.raises(errors.Stop, match=errors.BATCH_UNKNOWN):
            await asyncio.to_thread(writer.commit, [stored])
    assert payloads(messaging, topic) == [b"1"]


def through(between: FlakyProxy, topic: str) -> TopicWriter:
    return TopicWriter(SourceOptions.of({"url": between.url, "topics": topic}), ["payload"])


def batches(*payloads: bytes) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"payload": pa.array(payloads, pa.binary())})


@pytest.mark.parametrize(("topics", "columns"), [("a/t,b/t", ["payload"]), ("a/t", ["value"])])
def test_what_cannot_be_written_is_refused(topics: str, columns: list[str]) -> None:
    """Before a transaction is begun."""
    with pytest.raises(errors.Stop, match=errors.BAD_OPTION):
        TopicWriter(SourceOptions.of({"url": "http://127.0.0.1:9", "topics": topics}), columns)
