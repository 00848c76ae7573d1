"""Topics read as a batch."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, GreaterThan
from tests.support.topics.messaging_service import MessagingService

from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.range_reader import FairleadReader, FilteringReader, ReadPartition


@pytest.mark.verify
def test_a_batch_query_reads_what_it_asks_for(spark: SparkSession, messaging: MessagingService, topic: str) -> None:
    """Conditions on topic and time reach the service; the answer is exact."""
    other = topic + "-other"
    messaging.create(other)
    messaging.publish(topic, [b"1", b"2"])
    messaging.publish(other, [b"3"])
    rows = spark.read.format("fairlead").options(url=messaging.url, topics=f"{topic},{other}").load()
    assert rows.count() == 3
    first = min(row._published_at for row in rows.collect())
    assert rows.where(rows._topic == other).count() == 1
    assert rows.where(rows._published_at >= first).count() == 3
    assert rows.where(rows._published_at < first).count() == 0


def test_a_condition_keeps_other_topics_from_being_asked(messaging: MessagingService, topic: str) -> None:
    """Nothing is planned for topics that the query leaves out."""
    messaging.publish(topic, [b"1"])
    reader = FilteringReader(SourceOptions.of({"url": messaging.url, "topics": f"{topic},default/none"}))
    (part,) = reader.partitions()
    assert isinstance(part, ReadPartition)
    assert [(each.topic, each.rows) for each in part.ranges] == [(topic, 1)]
    conditions = [EqualTo(("_topic",), "default/none"), GreaterThan(("node",), "n")]
    assert list(reader.pushFilters(conditions)) == conditions
    (part,) = reader.partitions()
    assert isinstance(part, ReadPartition)
    assert list(reader.read(part)) == []


def test_a_session_that_pushes_no_conditions_reads_all_the_same(
    spark: SparkSession, messaging: MessagingService, topic: str
) -> None:
    """As a user's own session does by default."""
    messaging.publish(topic, [b"1", b"2"])
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        rows = spark.read.format("fairlead").options(url=messaging.url, topics=topic).load()
        assert rows.where(rows._topic == topic).count() == 2
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_options_bound_the_time(messaging: MessagingService, topic: str) -> None:
    """For those who do not write conditions."""
    messaging.publish(topic, [b"1"])
    base = {"url": messaging.url, "topics": topic}
    spans: list[dict[str, str]]
    spans = [{}, {"from": "2100-01-01T00:00:00Z"}, {"until": "2020-01-01T00:00:00Z"}, {"from": "0"}]
    parts = [FairleadReader(SourceOptions.of({**base, **span})).partitions()[0] for span in spans]
    assert [part.rows for part in parts if isinstance(part, ReadPartition)] == [1, 0, 0, 1]
