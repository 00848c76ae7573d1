"""Events on their way into a real messaging service."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.support.hub_core import Core
from tests.support.messaging import Topics, serving
from tests.support.upstream import until

from fairlead_hub.io import cloud_event_publisher
from fairlead_hub.io.cloud_event_publisher import CloudEventPublisher
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_wire.errors import Permanent, Temporary

TOPIC = "system/events"


class Reluctant(AsyncClient):
    """Makes topics only after these failures."""

    failures: list[Exception]

    async def create_topic(self, *args: Any, **kwargs: Any) -> bool:
        if self.failures:
            raise self.failures.pop(0)
        return await super().create_topic(*args, **kwargs)


class Desk:
    """A hub's core, and a task that carries its announcements away."""

    def __init__(self, client: AsyncClient) -> None:
        self.core = Core("edge-1")
        self.announcer = CloudEventPublisher(
            self.core.hub.cloud_events, client, topic=TOPIC, source="/fairlead/hub/hub-1", epoch=0xABC
        )
        self.task = asyncio.create_task(self.announcer.run())

    def away(self, node: str) -> None:
        self.core.hub.cloud_events.node_away(node, "connection_ended", self.core.now)

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
        desk = Desk(client)
        for number in range(20):
            desk.away(f"n{number}")
        await until(lambda: desk.announcer.published == 20)
        desk.core.hub.cloud_events.hub_stopped(3, desk.core.now)
        await desk.stop()
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
        desk = Desk(client)
        desk.away("n0")
        await until(lambda: desk.announcer.published == 1)
        await desk.stop()
    assert [each["node"] for each in await stored(topics)] == ["n0"]
    assert desk.core.hub.cloud_events.dropped == 0


async def test_a_topic_that_is_deleted_is_made_again(topics: Topics) -> None:
    """What was on its way is counted as dropped, never silently."""
    async with AsyncClient(topics.url) as client:
        desk = Desk(client)
        desk.away("n0")
        await until(lambda: desk.announcer.published == 1)
        await client.delete_topic("system", "events")
        desk.away("lost")
        await until(lambda: desk.announcer.dropped == 1)
        desk.away("also lost, or not")
        await until(lambda: desk.announcer.published + desk.announcer.dropped == 3)
        desk.away("n3")
        await until(lambda: desk.announcer.published + desk.announcer.dropped == 4)
        await desk.stop()
    assert (await stored(topics))[-1]["node"] == "n3"


async def test_what_a_service_that_never_came_did_not_take_is_counted() -> None:
    """The hub ends all the same."""
    async with AsyncClient("http://127.0.0.1:9") as client:
        desk = Desk(client)
        desk.away("n0")
        desk.away("n1")
        await asyncio.sleep(0)
        await desk.stop()
    assert desk.core.hub.cloud_events.dropped == 2
