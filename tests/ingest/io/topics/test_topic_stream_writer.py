"""A stream into a topic, each batch once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.kills.kill_after import kill_after, killed
from tests.support.lines.flaky_proxy import flaky
from tests.support.processes import start, wait_until
from tests.support.topics.messaging_service import MessagingService

from fairlead_ingest import errors
from fairlead_ingest.io.topics import topic_writer
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.spark_source import FairleadDataSource
from fairlead_ingest.io.topics.topic_writer import TopicStreamWriter
from fairlead_messaging.client import transaction_coordinator
from fairlead_messaging.client.io.bulk_client import BulkClient

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


def payloads(messaging: MessagingService, topic: str) -> list[bytes]:
    with BulkClient(messaging.url) as client:
        found: list[bytes] = client.poll(topic, after="").table["payload"].to_pylist()
    return found


def rows(*payloads: bytes) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"payload": pa.array(payloads, pa.binary())})


@pytest.fixture
def writer(messaging: MessagingService, topic: str, tmp_path: Path) -> TopicStreamWriter:
    return TopicStreamWriter(SourceOptions.of({"url": messaging.url, "topics": topic}), ["payload"], tmp_path)


def test_what_tasks_store_is_seen_with_the_batchs_commit(
    writer: TopicStreamWriter, messaging: MessagingService, topic: str
) -> None:
    """All tasks of an attempt under one transaction; a task without rows needs none."""
    stored = [writer.store(rows(b"1"), "0-run"), writer.store(rows(b"2"), "0-run"), writer.store(iter([]), "0-run")]
    assert payloads(messaging, topic) == []
    writer.commit([*stored, None], 0)
    assert payloads(messaging, topic) == [b"1", b"2"]
    assert len({each.pointer for each in stored[:2]}) == 1
    writer.commit([writer.store(iter([]), "1-run")], 1)
    assert payloads(messaging, topic) == [b"1", b"2"]


def test_a_batch_that_is_in_is_passed_over(writer: TopicStreamWriter, messaging: MessagingService, topic: str) -> None:
    """The crash between the topic's commit and Spark's."""
    for run in ("a", "b"):
        writer.commit([writer.store(rows(b"1"), f"0-{run}")], 0)
    assert payloads(messaging, topic) == [b"1"]


def test_a_crash_between_note_and_commit_is_made_good(
    writer: TopicStreamWriter, messaging: MessagingService, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The noted transaction is committed, not the new one."""
    stored = writer.store(rows(b"1"), "0-a")

    def killed(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as kill:
        kill.setattr(BulkClient, "commit", killed)
        with pytest.raises(SystemExit):
            writer.commit([stored], 0)
    assert payloads(messaging, topic) == []
    writer.commit([writer.store(rows(b"1"), "0-b")], 0)
    assert payloads(messaging, topic) == [b"1"]


def test_a_crash_before_the_note_leaves_nothing(
    writer: TopicStreamWriter, messaging: MessagingService, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published under a transaction that will never be committed."""
    stored = writer.store(rows(b"1"), "0-a")

    def killed(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as kill:
        kill.setattr(topic_writer, "_write", killed)
        with pytest.raises(SystemExit):
            writer.commit([stored], 0)
    writer.commit([writer.store(rows(b"1"), "0-b")], 0)
    assert stored.pointer is not None
    with BulkClient(messaging.url) as client:
        client.abort(stored.pointer)
    assert payloads(messaging, topic) == [b"1"]


def test_a_noted_transaction_that_was_aborted_since_is_replaced(
    writer: TopicStreamWriter, messaging: MessagingService, topic: str, tmp_path: Path
) -> None:
    """Its time was up, say: its rows will never be seen."""
    stored = writer.store(rows(b"1"), "0-a")
    assert stored.pointer is not None
    with BulkClient(messaging.url) as client:
        client.abort(stored.pointer)
    (tmp_path / "fairlead_topic" / "0.note").write_text(str(stored.pointer))
    writer.commit([writer.store(rows(b"1"), "0-b")], 0)
    assert payloads(messaging, topic) == [b"1"]


def test_a_forgotten_transaction_needs_a_person(
    writer: TopicStreamWriter, messaging: MessagingService, topic: str, tmp_path: Path
) -> None:
    """Whose word counts."""
    note = tmp_path / "fairlead_topic" / "0.note"
    stored = writer.store(rows(b"1"), "0-a")
    note.write_text("1")
    with pytest.raises(errors.Stop, match=f"{errors.BATCH_UNKNOWN}: batch 0"):
        writer.commit([stored], 0)
    note.write_text("what?")
    with pytest.raises(errors.Stop, match=errors.BATCH_UNKNOWN):
        writer.commit([stored], 0)
    note.write_text("done\n")
    writer.commit([stored], 0)
    assert payloads(messaging, topic) == []


async def test_a_batchs_commit_whose_answer_was_lost_has_not_failed(
    messaging: MessagingService, topic: str, tmp_path: Path
) -> None:
    """The query would end for nothing."""
    async with flaky(messaging.port) as between:
        writer = TopicStreamWriter(SourceOptions.of({"url": between.url, "topics": topic}), ["payload"], tmp_path)
        stored = await asyncio.to_thread(writer.store, rows(b"1"), "0-a")
        between.lose(3, containing=b"/commit")
        await asyncio.to_thread(writer.commit, [stored], 0)
        assert between.lost == 3
    assert payloads(messaging, topic) == [b"1"]


async def test_a_batchs_commit_that_cannot_be_confirmed_is_asked_for_by_the_next_attempt(
    messaging: MessagingService, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note says which transaction it is."""
    monkeypatch.setattr(transaction_coordinator, "COMMIT_PAUSES_SECONDS", (0.0,))
    async with flaky(messaging.port) as between:
        writer = TopicStreamWriter(SourceOptions.of({"url": between.url, "topics": topic}), ["payload"], tmp_path)
        stored = await asyncio.to_thread(writer.store, rows(b"1"), "0-a")
        between.lose(1_000_000, containing=b"/commit")
        with pytest.raises(errors.Wait, match=errors.UNREACHABLE):
            await asyncio.to_thread(writer.commit, [stored], 0)
        between.lose(0)
        again = await asyncio.to_thread(writer.store, rows(b"1"), "0-b")
        await asyncio.to_thread(writer.commit, [again], 0)
    assert payloads(messaging, topic) == [b"1"]


@pytest.mark.verify
@pytest.mark.faults
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_stream_killed_between_the_topics_commit_and_sparks_publishes_nothing_twice(
    messaging: MessagingService, topic: str, tmp_path: Path
) -> None:
    """The real thing: kill -9 of the JVM right there, then the stream is started again."""
    messaging.publish(topic, [b"%d" % number for number in range(40)])
    target = topic + "-copy"
    messaging.create(target)
    script, checkpoint = tmp_path / "stream.py", tmp_path / "checkpoint"
    script.write_text(STREAM)
    command = [sys.executable, str(script), messaging.url, topic, target, str(checkpoint)]
    modules = ["fairlead_messaging.client.io.bulk_client"]
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


def test_notes_of_earlier_batches_are_tidied_away(writer: TopicStreamWriter, tmp_path: Path) -> None:
    """The last one stays: Spark may not know yet."""
    for batch in range(3):
        writer.commit([writer.store(rows(b"1"), f"{batch}-run")], batch)
    assert sorted(path.name for path in (tmp_path / "fairlead_topic").iterdir()) == ["2-run", "2.note"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"topics": "a/b"}, "checkpoint is required"), ({"topics": "a/b,a/c", "checkpoint": "/x"}, "exactly one")],
)
def test_what_is_missing_is_named(options: dict[str, str], reason: str) -> None:
    """Before the query starts."""
    source = FairleadDataSource(options={"url": "http://h", **options})
    with pytest.raises(errors.Stop, match=reason):
        source.streamWriter(pa.schema([("payload", pa.binary())]), False)
