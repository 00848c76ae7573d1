"""A link of the edge under test, in this process, connected to a hub that the test controls."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from random import Random
from typing import Any

from tests.support.hubs.hub_server import WAIT_SECONDS, HubServer

from fairlead_edge.errors import StoreFailed
from fairlead_edge.io.link.link import Link
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_edge.objects.metastore import Metastore, Outcome, Put, Remove
from fairlead_wire.io.spans import Spans


def make(
    url: str,
    store: Metastore,
    *,
    clock: Callable[[], float] = lambda: 50.0,
    pause: float = 0.01,
    stale_hub_seconds: float = 600.0,
    spans: Spans | None = None,
) -> Link:
    return Link(
        hub_url=url,
        node="edge-1",
        agent="test",
        store_epoch=77,
        store=store,
        clock=clock,
        random=Random(1),
        attempt_seconds_max=pause,
        stale_hub_seconds=stale_hub_seconds,
        spans=spans,
    )


@contextlib.asynccontextmanager
async def running(link: Link) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(link.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def linked() -> AsyncIterator[tuple[HubServer, Link]]:
    """A hub, and a link that runs to it."""
    async with HubServer() as hub:
        link = make(hub.url, MemoryMetastore())
        async with running(link):
            yield hub, link


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until the condition is true."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.005)


class SlowStore(MemoryMetastore):
    """Writes wait until the test lets them through."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.batches: list[int] = []

    async def apply(self, writes: Any, now: float) -> list[Outcome]:
        self.batches.append(len(writes))
        await self.gate.wait()
        return await super().apply(writes, now)


class BrokenStore(MemoryMetastore):
    """A disk that fails."""

    async def apply(self, writes: Sequence[Put | Remove], now: float) -> list[Outcome]:
        raise StoreFailed("the disk failed")
