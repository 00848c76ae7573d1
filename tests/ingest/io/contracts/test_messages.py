"""Messages of a topic for a check."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging_service import MessagingService

from fairlead_ingest import errors
from fairlead_ingest.io import contracts
from fairlead_messaging.client.errors import TopicMissing
from fairlead_messaging.client.io.bulk_client import BulkClient

COUNT = 5_000


def read(client: BulkClient, topic: str, last: int | None = None, since_ms: int | None = None) -> list[int]:
    found = contracts.stretch(client, topic, last=last, since_ms=since_ms)
    numbers = [int(each) for page in contracts.pages(client, found) for each in page["payload"].to_pylist()]
    assert len(numbers) == found.rows
    return numbers


def test_the_newest_of_a_long_topic_are_found(messaging: MessagingService, topic: str) -> None:
    """Exactly as many, wherever the topic is cut, in order; and no reader's position is left."""
    with BulkClient(messaging.url) as client:
        assert read(client, topic, 5) == []
    messaging.publish(topic, [b"%d" % number for number in range(COUNT)])
    with BulkClient(messaging.url) as client:
        for last in (1, 10, 999, 1_001, 4_321, COUNT, COUNT + 5):
            assert read(client, topic, last) == list(range(max(0, COUNT - last), COUNT)), last
        assert read(client, topic) == list(range(COUNT))
        assert read(client, topic, since_ms=0, last=3) == [COUNT - 3, COUNT - 2, COUNT - 1]
        assert read(client, topic, since_ms=4_000_000_000_000) == []
    assert messaging.readers(topic) == []


def test_what_is_not_there_is_said(messaging: MessagingService) -> None:
    """A topic, or the service."""
    with BulkClient(messaging.url) as client, pytest.raises(TopicMissing):
        contracts.stretch(client, "default/never")
    with BulkClient("http://127.0.0.1:9") as client, pytest.raises(errors.Wait, match=errors.UNREACHABLE):
        contracts.stretch(client, "default/t")
