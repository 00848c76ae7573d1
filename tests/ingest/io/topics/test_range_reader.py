"""Offset ranges, in a task."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Queue

import pytest
from tests.support.topics.messaging_service import MessagingService

from fairlead_ingest import errors
from fairlead_ingest.io.topics import range_reader
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.range_reader import ReadPartition
from fairlead_ingest.source.offset_ranges import OffsetRange
from fairlead_messaging.client.errors import Expired
from fairlead_messaging.client.io.sync_client import BulkClient


def options(messaging: MessagingService, topic: str, **more: str) -> SourceOptions:
    return SourceOptions.of({"url": messaging.url, "topics": topic, **more})


def test_pages_follow_each_other_up_to_the_end(messaging: MessagingService, topic: str) -> None:
    """And not a row further."""
    messaging.publish(topic, [b"%d" % number for number in range(10)])
    with BulkClient(messaging.url) as client:
        plan = client.plan(topic, after="", limit_rows=7)
        wanted = OffsetRange(topic=topic, generation=plan.generation, after="", upto=plan.upto or "", rows=7)
        pages = list(range_reader.fetch(client, wanted, options(messaging, topic, pageRows="3")))
    assert [page.num_rows for page in pages] == [3, 3, 1]


def test_the_next_page_is_made_while_one_is_worked_on() -> None:
    """One, not more: pages are large."""
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


def test_what_went_wrong_ahead_is_raised_where_it_belongs() -> None:
    """After the page before it."""

    def pages() -> Iterator[int]:
        yield 1
        raise errors.Wait(errors.UNREACHABLE, "down")

    coming = range_reader.one_ahead(pages())
    assert next(coming) == 1
    with pytest.raises(errors.Wait, match=errors.UNREACHABLE):
        next(coming)


def test_a_topic_made_anew_under_a_batch_stops_with_its_code(messaging: MessagingService, topic: str) -> None:
    """Its rows cannot be read any more."""
    messaging.publish(topic, [b"1"])
    wanted = OffsetRange(topic=topic, generation=99, after="", upto="ff" * 20, rows=1)
    with pytest.raises(errors.Stop, match=errors.RECREATED):
        list(range_reader.rows_of(ReadPartition(ranges=(wanted,)), options(messaging, topic)))


def test_an_expired_start_goes_on_at_what_is_alive_by_policy(messaging: MessagingService, topic: str) -> None:
    """Never further back: what lies there was read before, and may be alive again."""
    gone = Expired("gone", oldest="0b", rows=2)
    assert range_reader.go_on(topic, "0a", gone, options(messaging, topic)) == "0b"
    with pytest.raises(errors.Stop, match=errors.EXPIRED):
        range_reader.go_on(topic, "0a", gone, options(messaging, topic, onExpired="fail"))
    with pytest.raises(Expired):
        range_reader.go_on(topic, "0b", gone, options(messaging, topic))
