"""Polls messaging for its topics while a page is open: one poll at a time, using only a share of the time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fairlead_hub.console import topics
from fairlead_hub.console.topics import ReaderLag, TopicLine, TopicSample, TopicsSeen
from fairlead_hub.wall_clock import WallClock
from fairlead_messaging.api.responses import Reader
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_wire.errors import FairleadError
from fairlead_wire.event import short

EVERY_SECONDS = 2.0
SHARE = 0.1
POLL_SECONDS = 20.0
READERS_MAX = 20
LATEST = "latest"


class TopicWatch:
    """``seen`` is the result of the last poll."""

    def __init__(self, clock: Callable[[], float], wall_clock: WallClock, *, is_configured: bool) -> None:
        self._clock, self._wall_clock = clock, wall_clock
        self._client: AsyncClient | None = None
        self.seen = TopicsSeen(is_configured)
        self._before: dict[str, TopicSample] = {}
        self._next = float("-inf")
        self._task: asyncio.Task[None] | None = None

    def ask(self, client: AsyncClient | None) -> None:
        """Poll with this client from now on.  None: the hub is stopping, and the client is closed afterwards."""
        self._client = client
        if client is None:
            self.close()

    def poll_if_due(self) -> None:
        """Start a poll unless one is running or has just finished."""
        due = self._clock() >= self._next and (self._task is None or self._task.done())
        if due and self._client is not None:
            self._task = asyncio.get_running_loop().create_task(self._poll(self._client), name="console topics")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _poll(self, client: AsyncClient) -> None:
        begun = self._clock()
        try:
            async with asyncio.timeout(POLL_SECONDS):
                looks, more = await self._all(client)
        except (FairleadError, TimeoutError, OSError) as error:
            self.seen = self.seen._replace(error=short(str(error) or "it takes too long"))
        else:
            rates = {line.topic: line.rate for line in self.seen.lines}
            lines: list[TopicLine] = topics.lines(self._before, rates, looks)
            self._before = {look.topic: look for look in looks}
            self.seen = TopicsSeen(True, tuple(lines), "", more)
        took = self._clock() - begun
        self._next = begun + max(EVERY_SECONDS, took / SHARE)

    async def _all(self, client: AsyncClient) -> tuple[list[TopicSample], int]:
        names = [(space, name) for space in await client.namespaces() for name in await client.topics(space)]
        shown = names[: topics.TOPICS_MAX]
        return [await self._one(client, *name) for name in shown], len(names) - len(shown)

    async def _one(self, client: AsyncClient, space: str, name: str) -> TopicSample:
        offset = await client.offsets(space, name, LATEST)
        readers = (await client.readers(space, name))[:READERS_MAX]
        now = self._clock()
        lags = tuple(self._lag(each, self._wall_clock.seconds(now)) for each in readers)
        return TopicSample(f"{space}/{name}", offset.generation, offset.passed or 0, now, lags)

    @staticmethod
    def _lag(reader: Reader, now: float) -> ReaderLag:
        return ReaderLag(
            name=short(reader.name),
            messages=reader.lag_messages,
            seconds=reader.lag_seconds,
            since=int(now - reader.lag_seconds) if reader.lag_messages else 0,
            updated=reader.updated_ms // 1000,
        )
