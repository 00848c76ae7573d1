"""Events of tables on their way into a real messaging service."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.topics.messaging_service import MessagingService

from fairlead_ingest.io import event_publisher
from fairlead_ingest.io.event_publisher import EventPublisher
from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.pipeline.events import Numbered
from fairlead_messaging.client.io.sync_client import Client
from fairlead_wire.event import Event


class Desk:
    """A publisher on a topic of its own, what it counted, and what is in the topic."""

    def __init__(self, url: str) -> None:
        self.url, self.name = url, f"events-{secrets.token_hex(4)}"
        self.metrics = IngestMetrics()
        self.publisher = self.another()

    def another(self) -> EventPublisher:
        client = Client(self.url, timeout_seconds=60.0, connect_seconds=60.0)
        return EventPublisher(client, self.metrics, topic=f"system/{self.name}", source="/fairlead/ingest/i")

    def count(self, outcome: str) -> float:
        return self.metrics.registry.get_sample_value("fairlead_ingest_events_total", {"outcome": outcome}) or 0.0

    def stored(self) -> list[dict[str, Any]]:
        with Client(self.url) as client:
            return [json.loads(each.payload) for each in client.poll("system", self.name).messages]


@pytest.fixture
def desk(messaging: MessagingService) -> Iterator[Desk]:
    made = Desk(messaging.url)
    yield made
    made.publisher.close()


def committed(*numbers: int) -> list[Numbered]:
    return [Numbered(number=n, event=Event(type="table.committed", time="t", data={"n": n})) for n in numbers]


@pytest.mark.process
def test_events_make_their_topic_and_keep_their_order(desk):
    desk.publisher.publish_numbered("ingest/app", committed(0, 2))
    desk.publisher.publish(Event(type="job.stopped", time="t"))
    desk.publisher.publish_numbered("ingest/app", committed(4))
    desk.publisher.send()
    found = desk.stored()
    assert [each["data"].get("n") for each in found] == [0, 2, None, 4]
    assert len({each["id"] for each in found}) == 4 and desk.count("published") == 4


def test_what_was_published_before_is_not_published_twice(desk):
    """A restarted job publishes its last commits again; the service knows their numbers."""
    desk.publisher.publish_numbered("ingest/app", committed(0, 2))
    desk.publisher.send()
    again = desk.another()
    again.publish_numbered("ingest/app", committed(0, 2, 4))
    again.close()
    assert [each["data"]["n"] for each in desk.stored()] == [0, 2, 4]
    assert desk.count("published") == 3


def test_events_wait_for_a_service_that_is_away(messaging):
    """It is not asked again at once, so a job is not slowed down by a service that hangs."""
    desk = Desk("http://127.0.0.1:9")
    desk.publisher.publish_numbered("ingest/app", committed(0))
    desk.publisher.send()
    assert desk.publisher._next_try > 0 and desk.count("dropped") == 0
    before = desk.publisher._next_try
    desk.publisher.send()
    assert desk.publisher._next_try == before
    desk.publisher.close()
    assert desk.count("dropped") == 1, "told at the next start, from the table's log"


def test_what_finds_no_room_is_dropped_and_counted(desk, monkeypatch):
    monkeypatch.setattr(event_publisher, "WAITING_MAX", 2)
    desk.publisher.publish_numbered("ingest/app", committed(0, 2, 4))
    desk.publisher.send()
    assert [each["data"]["n"] for each in desk.stored()] == [2, 4]
    assert desk.count("dropped") == 1


def test_what_the_service_refuses_for_good_is_dropped_and_counted(desk):
    desk.publisher.publish_numbered("ingest/" + "x" * 5000, committed(0))
    desk.publisher.publish_numbered("ingest/app", committed(0))
    desk.publisher.send()
    assert [each["data"]["n"] for each in desk.stored()] == [0]
    assert (desk.count("dropped"), desk.count("published")) == (1, 1)
