"""Writing a DataFrame to a topic all or nothing, and a stream with each batch once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.kills.kill_after import kill_after, killed
from tests.support.lines.flaky_proxy import FlakyProxy, flaky
from tests.support.processes import start, wait_until
from tests.support.topics.messaging_service import MessagingService

from fairlead_ingest import errors
from fairlead_ingest.io.spark.session import activate
from fairlead_ingest.io.topics import topic_writer
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.spark_source import FairleadDataSource
from fairlead_ingest.io.topics.topic_writer import StreamTaskStored, TopicStreamWriter, TopicWriter
from fairlead_messaging.client import transaction
from fairlead_messaging.client.io.sync_client import BulkClient, Client


def payloads(messaging: MessagingService, topic: str) -> list[bytes]:
    with BulkClient(messaging.url) as client:
        found: list[bytes] = client.poll(topic, after="").table["payload"].to_pylist()
    return found


def options(messaging: MessagingService, topics: str) -> SourceOptions:
    return SourceOptions.of({"url": messaging.url, "topics": topics})


def test_a_spark_job_publishes_at_its_commit(spark, messaging, topic):
    rows = spark.range(50).selectExpr("cast(id AS string) AS payload").repartition(2)
    activate(spark)
    rows.write.format("fairlead").options(url=messaging.url, topics=topic).mode("append").save()
    assert sorted(payloads(messaging, topic), key=int) == [b"%d" % number for number in range(50)]


def test_nothing_is_seen_before_the_commit_nor_after_an_abort(messaging, topic):
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


def test_a_task_renews_while_it_computes(messaging, topic):
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


def test_a_lost_transaction_is_told_with_its_remedy(messaging, topic):
    writer = TopicWriter(options(messaging, topic), ["payload"])
    with BulkClient(messaging.url) as client:
        client.abort(writer._pointer)
    for lost in (lambda: writer.write(batches(b"1")), lambda: writer.commit([topic_writer.TaskStored(rows=1)])):
        with pytest.raises(errors.Stop, match=r"^FAIRLEAD_TRANSACTION_LOST: .*is aborted; .*write them again"):
            lost()
    assert payloads(messaging, topic) == []


def test_requests_are_bounded(messaging, topic, monkeypatch):
    monkeypatch.setattr(topic_writer, "STORE_ROWS", 2)
    writer = TopicWriter(options(messaging, topic), ["payload"])
    five = [b"%d" % number for number in range(5)]
    writer.commit([writer.write(batches(*five))])
    assert payloads(messaging, topic) == five


async def test_a_commit_whose_answer_was_lost_has_not_failed(messaging, topic):
    """A failure would make Spark's user write everything again."""
    async with flaky(messaging.port) as between:
        writer = await asyncio.to_thread(through, between, topic)
        stored = await asyncio.to_thread(writer.write, batches(b"1"))
        between.lose(3, containing=b"/commit")
        await asyncio.to_thread(writer.commit, [stored])
        assert between.lost == 3
    assert payloads(messaging, topic) == [b"1"]


async def test_a_publish_of_what_was_stored_may_lose_its_answer(messaging, topic):
    async with flaky(messaging.port) as between:
        writer = await asyncio.to_thread(through, between, topic)
        stored = await asyncio.to_thread(writer.write, batches(b"1", b"2"))
        between.lose(1, containing=b"/publish")
        await asyncio.to_thread(writer.commit, [stored])
        assert between.lost == 1
    assert payloads(messaging, topic) == [b"1", b"2"]


@pytest.mark.process
async def test_a_service_killed_before_it_answered_a_commit_is_asked_again(tmp_path):
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


async def test_a_commit_that_cannot_be_confirmed_is_named(messaging, topic, monkeypatch):
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
def test_what_cannot_be_written_is_refused(topics, columns):
    with pytest.raises(errors.Stop, match=errors.BAD_OPTION):
        TopicWriter(SourceOptions.of({"url": "http://127.0.0.1:9", "topics": topics}), columns)


# One pass of a stream from topic to topic, as a user writes it.
STREAM = """
import sys
from fairlead_ingest.io.spark import session
url, source, target, checkpoint = sys.argv[1:]
spark = session.start(master="local[2]", driver_memory="1g", conf={})
rows = spark.readStream.format("fairlead").options(url=url, topics=source).load().repartition(2)
writer = rows.writeStream.format("fairlead").options(url=url, topics=target, checkpoint=checkpoint)
session.activate(spark)
writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
"""
PATIENCE_SECONDS = 200.0


@pytest.fixture
def writer(messaging: MessagingService, topic: str, tmp_path: Path) -> TopicStreamWriter:
    return TopicStreamWriter(SourceOptions.of({"url": messaging.url, "topics": topic}), ["payload"], tmp_path)


def test_what_tasks_store_is_seen_with_the_batchs_commit(writer, messaging, topic):
    """All tasks of an attempt under one transaction; a task without rows needs none."""
    stored = [
        writer.store(batches(b"1"), "0-run"),
        writer.store(batches(b"2"), "0-run"),
        writer.store(iter([]), "0-run"),
    ]
    assert payloads(messaging, topic) == []
    writer.commit([*stored, None], 0)
    assert payloads(messaging, topic) == [b"1", b"2"]
    assert len({each.pointer for each in stored[:2]}) == 1
    writer.commit([writer.store(iter([]), "1-run")], 1)
    assert payloads(messaging, topic) == [b"1", b"2"]


def test_a_batch_that_is_in_is_passed_over(writer, messaging, topic):
    for run in ("a", "b"):
        writer.commit([writer.store(batches(b"1"), f"0-{run}")], 0)
    assert payloads(messaging, topic) == [b"1"]


def die_in_commit(writer: TopicStreamWriter, stored: StreamTaskStored, where: object, name: str) -> None:
    """Commit batch 0 in a process that dies when it calls ``name``."""

    def killed(*_: object) -> None:
        raise SystemExit

    with pytest.MonkeyPatch.context() as kill:
        kill.setattr(where, name, killed)
        with pytest.raises(SystemExit):
            writer.commit([stored], 0)


def test_a_crash_between_note_and_commit_is_made_good(writer, messaging, topic):
    die_in_commit(writer, writer.store(batches(b"1"), "0-a"), BulkClient, "commit")
    assert payloads(messaging, topic) == []
    writer.commit([writer.store(batches(b"1"), "0-b")], 0)
    assert payloads(messaging, topic) == [b"1"]


def test_a_crash_before_the_note_leaves_nothing(writer, messaging, topic):
    """Published under a transaction that will never be committed."""
    stored = writer.store(batches(b"1"), "0-a")
    die_in_commit(writer, stored, topic_writer, "_write")
    writer.commit([writer.store(batches(b"1"), "0-b")], 0)
    assert stored.pointer is not None
    with BulkClient(messaging.url) as client:
        client.abort(stored.pointer)
    assert payloads(messaging, topic) == [b"1"]


def test_a_noted_transaction_that_was_aborted_since_is_replaced(writer, messaging, topic, tmp_path):
    stored = writer.store(batches(b"1"), "0-a")
    assert stored.pointer is not None
    with BulkClient(messaging.url) as client:
        client.abort(stored.pointer)
    (tmp_path / "fairlead_topic" / "0.note").write_text(str(stored.pointer))
    writer.commit([writer.store(batches(b"1"), "0-b")], 0)
    assert payloads(messaging, topic) == [b"1"]


def test_a_forgotten_transaction_needs_a_person(writer, messaging, topic, tmp_path):
    note = tmp_path / "fairlead_topic" / "0.note"
    stored = writer.store(batches(b"1"), "0-a")
    note.write_text("1")
    with pytest.raises(errors.Stop, match=f"{errors.BATCH_UNKNOWN}: batch 0"):
        writer.commit([stored], 0)
    note.write_text("what?")
    with pytest.raises(errors.Stop, match=errors.BATCH_UNKNOWN):
        writer.commit([stored], 0)
    note.write_text("done\n")
    writer.commit([stored], 0)
    assert payloads(messaging, topic) == []


async def test_a_batchs_commit_whose_answer_was_lost_has_not_failed(messaging, topic, tmp_path):
    async with flaky(messaging.port) as between:
        writer = TopicStreamWriter(SourceOptions.of({"url": between.url, "topics": topic}), ["payload"], tmp_path)
        stored = await asyncio.to_thread(writer.store, batches(b"1"), "0-a")
        between.lose(3, containing=b"/commit")
        await asyncio.to_thread(writer.commit, [stored], 0)
        assert between.lost == 3
    assert payloads(messaging, topic) == [b"1"]


async def test_a_batchs_commit_that_cannot_be_confirmed_is_asked_for_by_the_next_attempt(
    messaging, topic, tmp_path, monkeypatch
):
    monkeypatch.setattr(transaction, "COMMIT_PAUSES_SECONDS", (0.0,))
    async with flaky(messaging.port) as between:
        writer = TopicStreamWriter(SourceOptions.of({"url": between.url, "topics": topic}), ["payload"], tmp_path)
        stored = await asyncio.to_thread(writer.store, batches(b"1"), "0-a")
        between.lose(1_000_000, containing=b"/commit")
        with pytest.raises(errors.Wait, match=errors.UNREACHABLE):
            await asyncio.to_thread(writer.commit, [stored], 0)
        between.lose(0)
        again = await asyncio.to_thread(writer.store, batches(b"1"), "0-b")
        await asyncio.to_thread(writer.commit, [again], 0)
    assert payloads(messaging, topic) == [b"1"]


@pytest.mark.verify
@pytest.mark.faults
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_stream_killed_between_the_topics_commit_and_sparks_publishes_nothing_twice(messaging, topic, tmp_path):
    """The real thing: kill -9 of the JVM right there, then the stream is started again."""
    messaging.publish(topic, [b"%d" % number for number in range(40)])
    target = topic + "-copy"
    messaging.create(target)
    script, checkpoint = tmp_path / "stream.py", tmp_path / "checkpoint"
    script.write_text(STREAM)
    command = [sys.executable, str(script), messaging.url, topic, target, str(checkpoint)]
    modules = ["fairlead_messaging.client.io.sync_client"]
    environ = kill_after(tmp_path, modules, "BulkClient.commit", "True")
    first = start("stream", command, tmp_path / "stream.log", environ=environ)

    def was_killed() -> bool:
        if not killed(tmp_path):
            first.require_alive()
        return killed(tmp_path)

    wait_until("the JVM was killed", was_killed, seconds=PATIENCE_SECONDS, describe=first.tail)
    first.kill()
    assert not [path for path in (checkpoint / "commits").iterdir() if path.name == "0"]
    assert len(payloads(messaging, target)) == 40
    messaging.publish(topic, [b"%d" % number for number in range(40, 50)])
    second = start("stream", command, tmp_path / "stream.log")
    assert second.process.wait(PATIENCE_SECONDS) == 0, second.tail()
    assert sorted(payloads(messaging, target), key=int) == [b"%d" % number for number in range(50)]


def test_notes_of_earlier_batches_are_tidied_away(writer, tmp_path):
    for batch in range(3):
        writer.commit([writer.store(batches(b"1"), f"{batch}-run")], batch)
    assert sorted(path.name for path in (tmp_path / "fairlead_topic").iterdir()) == ["2-run", "2.note"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"topics": "a/b"}, "checkpoint is required"), ({"topics": "a/b,a/c", "checkpoint": "/x"}, "exactly one")],
)
def test_what_is_missing_is_named(options, reason):
    source = FairleadDataSource(options={"url": "http://h", **options})
    with pytest.raises(errors.Stop, match=reason):
        source.streamWriter(pa.schema([("payload", pa.binary())]), False)
