"""A DataFrame into a topic, all or nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.messaging_service import MessagingService

from fairlead_ingest import errors
from fairlead_ingest.io import topic_writer
from fairlead_ingest.io.options import Options
from fairlead_ingest.io.session import activate
from fairlead_ingest.io.topic_writer import TopicWriter
from fairlead_messaging.io.sync_client import BulkClient


def payloads(messaging: MessagingService, topic: str) -> list[bytes]:
    with BulkClient(messaging.url) as client:
        found: list[bytes] = client.poll(topic, after="").table["payload"].to_pylist()
    return found


def options(messaging: MessagingService, topics: str) -> Options:
    return Options.of({"url": messaging.url, "topics": topics})


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


def test_requests_are_bounded(messaging: MessagingService, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task of any size stores in portions."""
    monkeypatch.setattr(topic_writer, "STORE_ROWS", 2)
    writer = TopicWriter(options(messaging, topic), ["payload"])
    batch = pa.RecordBatch.from_pydict({"payload": [b"%d" % number for number in range(5)]})
    writer.commit([writer.write(iter([batch]))])
    assert payloads(messaging, topic) == [b"%d" % number for number in range(5)]


@pytest.mark.parametrize(("topics", "columns"), [("a/t,b/t", ["payload"]), ("a/t", ["value"])])
def test_what_cannot_be_written_is_refused(topics: str, columns: list[str]) -> None:
    """Before a transaction is begun."""
    with pytest.raises(errors.Stop, match=errors.BAD_OPTION):
        TopicWriter(Options.of({"url": "http://127.0.0.1:9", "topics": topics}), columns)
