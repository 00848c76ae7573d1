"""Events on their way into a real messaging service."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.support.edges.upstream import until
from tests.support.hubs.hub_core import Core
from tests.support.topics.messaging import Topics, serving

from fairlead_hub.io.messaging import cloud_event_publisher
from fairlead_hub.io.messaging.cloud_event_publisher import CloudEventPublisher
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_wire.errors import Permanent, Temporary

WAIT_SECONDS = 100.0
TOPIC = "system/events"


class Reluctant(AsyncClient):
    """Makes topics only after these failures."""

    failures: list[Exception]

    async def create_topic(self, *args: Any, **kwargs: Any) -> bool:
        if self.failures:
            raise self.failures.pop(0)
        return await super().create_topic(*args, **kwargs)


class Line:
    """A hub's core, and a task that publishes its events."""

    def __init__(self, client: AsyncClient, url: str = "http://127.0.0.1:9") -> None:
        self.core = Core("edge-1", messaging_url=url)
        self.publisher = CloudEventPublisher(client, topic=TOPIC, source="/fairlead/hub/hub-1", epoch=0xABC)
        self.task = asyncio.create_task(self.publisher.run())
        self.said = 0
        """Events that were handed over."""

    def away(self, node: str) -> None:
        self.said += 1
        self.core.hub.cloud_events.node_away(node, "connection_ended", self.core.now)
        self.publish()

    def publish(self) -> None:
        self.publisher.publish(self.core.take_cloud_events())

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


@pytest.fixture
async def topics() -> AsyncIterator[Topics]:
    async with serving() as made:
        yield made


async def stored(topics: Topics) -> list[dict[str, Any]]:
    answer = await topics.ask("POST", "/v1/namespaces/system/topics/events/poll", {"startFrom": None})
    async with AsyncClient(topics.url) as client:
        page = await client.poll("system", "events")
    assert answer.status == 200 or not page.messages
    return [msgspec.json.decode(each.payload) for each in page.messages]


async def test_events_are_in_the_topic_in_their_order(topics: Topics) -> None:
    """The topic is made; ids never repeat; the last ones leave as the hub stops."""
    async with AsyncClient(topics.url) as client:
        line = Line(client)
        for number in range(20):
            line.away(f"n{number}")
        await until(lambda: line.publisher.published == 20)
        line.core.hub.stopped(line.core.now)
        line.publish()
        await line.stop()
    found = await stored(topics)
    assert [each.get("node") for each in found] == [*(f"n{number}" for number in range(20)), None]
    assert found[-1]["type"] == "dev.fairlead.hub.stopped" and found[0]["time"] == "2027-01-15T08:00:00Z"
    assert [each["id"] for each in found] == [f"abc-{number}" for number in range(1, 22)]
    assert {each["source"] for each in found} == {"/fairlead/hub/hub-1"}


@pytest.mark.parametrize(
    "failure",
    [
        Temporary("it starts", retry_after_seconds=0.01),
        Temporary("it asks for ten minutes", retry_after_seconds=600.0),
        Permanent("no room", code="too_many_topics"),
    ],
)
async def test_events_wait_for_a_service_that_is_away(
    topics: Topics, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bounded memory; nothing of the hub waits for them."""
    monkeypatch.setattr(cloud_event_publisher, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(cloud_event_publisher, "REFUSED_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(cloud_event_publisher, "RETRY_AFTER_SECONDS_MAX", 0.01)
    async with Reluctant(topics.url) as client:
        client.failures = [failure] * 3
        line = Line(client)
        line.away("n0")
        await until(lambda: line.publisher.published == 1)
        await line.stop()
    assert [each["node"] for each in await stored(topics)] == ["n0"]
    assert line.publisher.dropped == line.core.hub.cloud_events.dropped == 0


async def test_a_topic_that_is_deleted_is_made_again(topics: Topics) -> None:
    """What was on its way is counted as dropped, never silently; how much that is depends on when it is noticed."""
    async with AsyncClient(topics.url) as client:
        line = Line(client)
        line.away("n0")
        await until(lambda: line.publisher.published == 1)
        await client.delete_topic("system", "events")
        line.away("lost")
        await until(lambda: line.publisher.dropped == 1)
        async with asyncio.timeout(WAIT_SECONDS):
            while line.publisher.published == 1:
                line.away(f"n{line.said}")
                await until(lambda: line.publisher.published + line.publisher.dropped == line.said)
        await line.stop()
    assert [each["node"] for each in await stored(topics)] == [f"n{line.said - 1}"]


async def test_what_a_service_that_never_came_did_not_take_is_counted() -> None:
    """The hub ends all the same."""
    async with AsyncClient("http://127.0.0.1:9") as client:
        line = Line(client)
        line.away("n0")
        line.away("n1")
        await asyncio.sleep(0)
        await line.stop()
    assert line.publisher.dropped == 2
