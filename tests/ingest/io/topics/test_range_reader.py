"""Reading offset ranges in a task, and topics as a batch query."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Queue

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan
from tests.support.topics.messaging_service import MessagingService

from fairlead_ingest import errors
from fairlead_ingest.io.topics import range_reader
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.range_reader import FairleadReader, FilteringReader, ReadPartition
from fairlead_ingest.source.offset_ranges import OffsetRange
from fairlead_messaging.client.errors import Expired
from fairlead_messaging.client.io.sync_client import BulkClient


def options(messaging: MessagingService, topic: str, **more: str) -> SourceOptions:
    return SourceOptions.of({"url": messaging.url, "topics": topic, **more})


def test_pages_follow_each_other_up_to_the_end(messaging, topic):
    messaging.publish(topic, [b"%d" % number for number in range(10)])
    with BulkClient(messaging.url) as client:
        plan = client.plan(topic, after="", limit_rows=7)
        wanted = OffsetRange(topic=topic, generation=plan.generation, after="", upto=plan.upto or "", rows=7)
        pages = list(range_reader.fetch(client, wanted, options(messaging, topic, pageRows="3")))
    assert [page.num_rows for page in pages] == [3, 3, 1]


def test_the_next_page_is_made_while_one_is_worked_on():
    made = Queue[int]()

    def pages() -> Iterator[int]:
        for number in range(1, 5):
            made.put(number)
            yield number

    coming = range_reader.one_ahead(pages())
    assert next(coming) == 1
    assert [made.get(timeout=100.0), made.get(timeout=100.0)] == [1, 2]
    assert made.empty()
    assert list(coming) == [2, 3, 4]


def test_what_went_wrong_ahead_is_raised_where_it_belongs():
    def pages() -> Iterator[int]:
        yield 1
        raise errors.Wait(errors.UNREACHABLE, "down")

    coming = range_reader.one_ahead(pages())
    assert next(coming) == 1
    with pytest.raises(errors.Wait, match=errors.UNREACHABLE):
        next(coming)


def test_a_topic_made_anew_under_a_batch_stops_with_its_code(messaging, topic):
    messaging.publish(topic, [b"1"])
    wanted = OffsetRange(topic=topic, generation=99, after="", upto="ff" * 20, rows=1)
    with pytest.raises(errors.Stop, match=errors.RECREATED):
        list(range_reader.rows_of(ReadPartition(ranges=(wanted,)), options(messaging, topic)))


def test_an_expired_start_goes_on_at_what_is_alive_by_policy(messaging, topic):
    """Never further back: what lies there was read before, and may be alive again."""
    gone = Expired("gone", oldest="0b", rows=2)
    assert range_reader.go_on(topic, "0a", gone, options(messaging, topic)) == "0b"
    with pytest.raises(errors.Stop, match=errors.EXPIRED):
        range_reader.go_on(topic, "0a", gone, options(messaging, topic, onExpired="fail"))
    with pytest.raises(Expired):
        range_reader.go_on(topic, "0b", gone, options(messaging, topic))


@pytest.mark.verify
def test_a_batch_query_reads_what_it_asks_for(spark, messaging, topic):
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


def test_a_condition_keeps_other_topics_from_being_asked(messaging, topic):
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


def test_a_session_that_pushes_no_conditions_reads_all_the_same(spark, messaging, topic):
    messaging.publish(topic, [b"1", b"2"])
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        rows = spark.read.format("fairlead").options(url=messaging.url, topics=topic).load()
        assert rows.where(rows._topic == topic).count() == 2
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_options_bound_the_time(messaging, topic):
    messaging.publish(topic, [b"1"])
    base = {"url": messaging.url, "topics": topic}
    spans: list[dict[str, str]]
    spans = [{}, {"from": "2100-01-01T00:00:00Z"}, {"until": "2020-01-01T00:00:00Z"}, {"from": "0"}]
    parts = [FairleadReader(SourceOptions.of({**base, **span})).partitions()[0] for span in spans]
    assert [part.rows for part in parts if isinstance(part, ReadPartition)] == [1, 0, 0, 1]
