"""Topics of a real messaging service, looked at while a page is open."""

from __future__ import annotations

import asyncio

from tests.support.hubs.console import until
from tests.support.topics.messaging import serving

from fairlead_hub.io.console.live_source import TOPICS_EVERY_SECONDS, TopicWatch
from fairlead_hub.wall_clock import WallClock
from fairlead_messaging.client.io.async_client import AsyncClient


class Looking:
    """A watch whose clock is moved by hand."""

    def __init__(self, client: AsyncClient | None) -> None:
        self.now = 0.0
        self.watch = TopicWatch(lambda: self.now, WallClock(lambda: 0.0), is_configured=True)
        self.watch.ask(client)

    async def look(self) -> None:
        before = self.watch.seen
        self.now += TOPICS_EVERY_SECONDS
        self.watch.poll_if_due()
        await until(lambda: self.watch.seen is not before, "a look")


async def test_rates_and_readers() -> None:
    """Two looks give a rate; a reader's lag says how fresh its table is."""
    async with serving() as topics, AsyncClient(topics.url) as client:
        looking = Looking(client)
        await client.create_topic("default", "sales")
        await looking.look()
        assert [(line.topic, line.rate) for line in looking.watch.seen.lines if line.topic == "default/sales"] == [
            ("default/sales", None)
        ]
        await client.publish("default", "sales", [b"1", b"2"])
        start = await client.offsets("default", "sales", "earliest")
        await client.note_reader("default", "sales", "sales-table", position=start.position or "")
        await looking.look()
        [line] = [line for line in looking.watch.seen.lines if line.topic == "default/sales"]
        assert (line.passed, line.rate) == (2, 1.0)
        assert [reader.name for reader in line.readers] == ["sales-table"]


async def test_a_service_that_is_away_is_said_and_what_was_known_stays() -> None:
    """The reason stands above the table."""
    async with serving() as topics:
        url = topics.url
        async with AsyncClient(url) as client:
            looking = Looking(client)
            await client.create_topic("default", "sales")
            await looking.look()
    async with AsyncClient("http://127.0.0.1:9") as client:
        looking.watch.ask(client)
        await looking.look()
    assert looking.watch.seen.error and any(line.topic == "default/sales" for line in looking.watch.seen.lines)
    looking.watch.close()


async def test_without_messaging_nothing_is_asked() -> None:
    """And not more often than it is due."""
    looking = Looking(None)
    looking.watch.poll_if_due()
    assert looking.watch.seen.lines == ()


class Silent(AsyncClient):
    """A service that does not answer."""

    async def namespaces(self) -> list[str]:
        await asyncio.Event().wait()
        return []


async def test_a_look_on_its_way_ends_with_the_client() -> None:
    """A client that is asked after its end would open connections that are never closed."""
    async with Silent("http://127.0.0.1:9") as client:
        looking = Looking(client)
        looking.watch.poll_if_due()
        [task] = [each for each in asyncio.all_tasks() if each.get_name() == "console topics"]
        looking.watch.ask(None)
        assert await asyncio.wait([task]) and task.cancelled()
