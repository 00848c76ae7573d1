"""The source as Spark drives it, on the real service, without Spark."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from tests.support.processes import wait_until
from tests.support.topics.messaging_service import MessagingService, upstream_message

from fairlead_ingest import errors
from fairlead_ingest.io.checkpoint import batch_notes
from fairlead_ingest.io.checkpoint.batch_notes import UnreadCounts
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.range_reader import ReadPartition
from fairlead_ingest.io.topics.spark_source import FairleadDataSource, FairleadStreamReader
from fairlead_ingest.source import offsets


def reader(messaging: MessagingService, topics: str, **options: str) -> FairleadStreamReader:
    return FairleadStreamReader(SourceOptions.of({"url": messaging.url, "topics": topics, "waitMs": "0", **options}))


def sequences(reading: FairleadStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    return [
        payload
        for part in reading.partitions(start, end)
        for batch in pickle.loads(pickle.dumps(reading)).read(part)
        for payload in batch["payload"].to_pylist()
    ]


def test_a_batch_is_planned_and_read(messaging, topic):
    reading = reader(messaging, topic)
    start = reading.initialOffset()
    assert reading.latestOffset(start, ReadAllAvailable()) == start
    payloads = [b"%d" % number for number in range(20)]
    messaging.publish(topic, payloads)
    end = reading.latestOffset(start, ReadMaxRows(1000))
    assert offsets.parse_offsets(end).rows == 20
    assert sequences(reading, start, end) == payloads
    assert reading.latestOffset(end, ReadMaxRows(1000)) == end
    reading.stop()


def test_many_small_topics_are_read_by_few_tasks(messaging, topic):
    """A hundred topics with one message each must not be a hundred tasks a batch."""
    topics = [f"{topic}-{number}" for number in range(12)]
    for number, name in enumerate(topics):
        messaging.create(name)
        messaging.publish(name, [b"%d" % number])
    reading = reader(messaging, ",".join(topics), splits="2")
    start = reading.initialOffset()
    end = reading.latestOffset(start, ReadAllAvailable())
    parts = reading.partitions(start, end)
    assert [part.rows for part in parts if isinstance(part, ReadPartition)] == [6, 6]
    assert sorted(sequences(reading, start, end)) == sorted(b"%d" % number for number in range(12))


def test_a_busy_topic_takes_what_quiet_ones_leave_of_a_batch(messaging, topic):
    """Equal shares would read it a tenth of a batch at a time; and its batch is cut for all cores."""
    quiet = [f"{topic}-{number}" for number in range(9)]
    for name in quiet:
        messaging.create(name)
    payloads = [b"%d" % number for number in range(100)]
    messaging.publish(topic, payloads)
    messaging.publish(quiet[0], [b"quiet"])
    reading = reader(messaging, ",".join([*quiet, topic]), splits="4", splitBytes="1")
    start = reading.initialOffset()
    end = reading.latestOffset(start, ReadMaxRows(100))
    found = offsets.parse_offsets(end).topics
    assert found[quiet[0]].rows == 1
    assert 80 <= found[topic].rows <= 99
    assert len(reading.partitions(start, end)) >= 4
    rest = reading.latestOffset(end, ReadMaxRows(100))
    everything = sequences(reading, start, end) + sequences(reading, end, rest)
    assert sorted(everything) == sorted([*payloads, b"quiet"])


def test_limits_cut_batches_and_pages_and_lose_nothing(messaging, topic):
    payloads = [b"%d" % number for number in range(50)]
    messaging.publish(topic, payloads)
    reading = reader(messaging, topic, pageRows="7", splits="3", splitBytes="1")
    found: list[bytes] = []
    start = reading.initialOffset()
    while (end := reading.latestOffset(start, ReadMaxRows(20))) != start:
        parts = reading.partitions(start, end)
        assert 1 <= len(parts) <= 3
        assert sum(part.rows for part in parts if isinstance(part, ReadPartition)) <= 20
        found += sequences(reading, start, end)
        start = end
    assert found == payloads


def test_the_same_offsets_give_the_same_rows_again(messaging, topic):
    """What Spark asks of a source when it tries a batch again, in another process."""
    messaging.publish(topic, [b"1", b"2"])
    reading = reader(messaging, topic)
    start = reading.initialOffset()
    end = reading.latestOffset(start, ReadAllAvailable())
    messaging.publish(topic, [b"3"])
    assert sequences(reader(messaging, topic), start, end) == [b"1", b"2"]


def test_available_now_stops_at_what_was_stable_at_its_start(messaging, topic):
    messaging.publish(topic, [b"1", b"2"])
    reading = reader(messaging, topic)
    reading.prepareForTriggerAvailableNow()
    start = reading.initialOffset()
    messaging.publish(topic, [b"3"])
    end = reading.latestOffset(start, ReadAllAvailable())
    assert sequences(reading, start, end) == [b"1", b"2"]
    assert reading.latestOffset(end, ReadAllAvailable()) == end


def test_an_idle_query_waits_in_the_service(messaging, topic):
    """Else Spark would ask a hundred times a second; news ends the wait."""
    reading = reader(messaging, topic, waitMs="300")
    start = reading.initialOffset()
    began = time.monotonic()
    assert reading.latestOffset(start, ReadAllAvailable()) == start
    assert time.monotonic() - began >= 0.25


def test_a_message_is_an_upstream_message_in_envelope_format(messaging, topic):
    messaging.publish(topic, [upstream_message(1), b"broken"])
    reading = reader(messaging, topic, format="envelope")
    start = reading.initialOffset()
    end = reading.latestOffset(start, ReadAllAvailable())
    rows = [row for part in reading.partitions(start, end) for batch in reading.read(part) for row in batch.to_pylist()]
    assert [row["sequence"] for row in rows] == [1, None]
    assert rows[1]["_payload"] == b"broken"


def test_a_service_that_is_down_is_a_reason_to_wait():
    """Coded, so that the program knows after Spark has wrapped it."""
    reading = FairleadStreamReader(SourceOptions.of({"url": "http://127.0.0.1:9", "topics": "a/t"}))
    with pytest.raises(errors.Wait, match=errors.UNREACHABLE):
        reading.initialOffset()


def test_positions_of_another_service_are_refused(messaging, topic):
    reading = reader(messaging, topic)
    messaging.publish(topic, [b"1"])
    start = reading.initialOffset()
    with pytest.raises(errors.Stop, match=errors.OTHER_SERVICE):
        reading.latestOffset({**start, "svc": "another"}, ReadAllAvailable())


def test_the_schema_follows_the_format(messaging, topic):
    base = {"url": messaging.url, "topics": topic}
    assert FairleadDataSource(options=base).schema().names == ["payload", "_topic", "_id", "_published_at"]
    assert "body" in FairleadDataSource(options={**base, "format": "envelope"}).schema().names


@pytest.mark.parametrize("goes", ["before it is planned again", "before it is read"])
def test_a_topic_made_anew_in_the_middle_of_a_batch_is_what_the_policy_says(messaging, topic, tmp_path, goes):
    """Stopped with its code, or gone on without, and noted for the gaps."""

    def fetched(policy: str) -> tuple[list[bytes], UnreadCounts]:
        messaging.publish(topic, [b"1", b"2"])
        reading = reader(messaging, topic, onRecreated=policy, checkpoint=str(tmp_path))
        start = reading.initialOffset()
        end = reading.latestOffset(start, ReadAllAvailable())
        parts = reading.partitions(start, end) if goes == "before it is read" else None
        messaging.delete(topic)
        messaging.create(topic)
        parts = reading.partitions(start, end) if parts is None else parts
        found = [payload for part in parts for rows in reading.read(part) for payload in rows["payload"].to_pylist()]
        return found, batch_notes.read_unread(batch_notes.notes_folder(tmp_path, offsets.parse_offsets(end)))

    with pytest.raises(errors.Stop, match=rf"{errors.RECREATED}.*gap row"):
        fetched("fail")
    assert fetched("restart") == ([], UnreadCounts(rolled_back={topic: 0}, recreated=frozenset({topic})))


@pytest.mark.parametrize("again", ["before it is planned again", "before it is read"])
def test_what_expired_and_lives_again_is_not_read_twice(messaging, topic, again):
    """A longer time to live brings rows back that are in the table already, or were counted as gone."""
    reading = reader(messaging, topic)
    messaging.publish(topic, [b"1", b"2", b"3"])
    start = reading.initialOffset()
    before = reading.latestOffset(start, ReadAllAvailable())
    messaging.publish(topic, [b"4", b"5"])
    messaging.configure(topic, ttl=1)
    wait_until("they have expired", lambda: not messaging.visible(topic), seconds=120)
    expired = 2
    while True:
        messaging.publish(topic, [b"6", b"7"])
        end = reading.latestOffset(before, ReadAllAvailable())
        parts = reading.partitions(before, end) if again == "before it is read" else None
        if messaging.visible(topic) == 2:
            break
        expired += 2  # this machine took longer than they live
    messaging.configure(topic, ttl=3600)
    parts = reading.partitions(before, end) if parts is None else parts
    found = [payload for part in parts for rows in reading.read(part) for payload in rows["payload"].to_pylist()]
    assert found == [b"6", b"7"]
    place = offsets.parse_offsets(end).topics[topic]
    assert (place.rows, place.expired) == (2, expired)
