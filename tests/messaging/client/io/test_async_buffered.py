"""Fire and forget on an event loop; what both publishers do is in the conformance suite."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.topics.messaging import Topics, until

from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.buffered_publisher import AsyncBufferedPublisher
from fairlead_wire.errors import FairleadError


def publisher(client: AsyncClient, topic: str = "t", **options: Any) -> AsyncBufferedPublisher:
    return AsyncBufferedPublisher(client, "default", topic, **options)


async def test_everything_goes_out_in_order(topics: Topics) -> None:
    """In the background, and what is left on leaving."""
    await topics.create("t")
    async with AsyncClient(topics.url) as client, publisher(client) as buffered:
        for number in range(2500):
            assert buffered.publish(str(number).encode())
        await until(lambda: buffered.published > 0)
        buffered.publish(b"last")
    assert (buffered.published, buffered.dropped) == (2501, 0)
    assert await topics.payloads("t") == [*(str(number) for number in range(2500)), "last"]


async def test_messages_may_wait_before_it_is_entered(topics: Topics) -> None:
    """They go out once it is."""
    await topics.create("t")
    async with AsyncClient(topics.url) as client:
        buffered = publisher(client, waiting_messages_max=2)
        assert [buffered.publish(b"a"), buffered.publish(b"b"), buffered.publish(b"c")] == [True, True, False]
        async with buffered:
            assert await buffered.flush(30)
    assert await topics.payloads("t") == ["a", "b"]


async def test_what_never_gets_through_is_given_up_in_the_end() -> None:
    """Counted and reported, and nothing is raised; flush says that it did not happen."""
    reported: list[tuple[int, FairleadError]] = []
    async with (
        AsyncClient("http://127.0.0.1:1") as client,
        publisher(client, close_seconds=0.01, on_drop=lambda *drop: reported.append(drop)) as buffered,
    ):
        buffered.publish(b"a")
        assert not await buffered.flush(0.01)
    assert buffered.dropped == 1
    assert [count for count, _ in reported] == [1]


async def test_a_cancelled_owner_still_counts_what_is_lost() -> None:
    """Cancelled while closing: no message disappears from the counts."""
    async with AsyncClient("http://127.0.0.1:1") as client:
        buffered = publisher(client, close_seconds=60)

        async def own() -> None:
            async with buffered:
                buffered.publish(b"a")

        owner = asyncio.create_task(own())
        await asyncio.sleep(0.01)
        owner.cancel()
        await asyncio.gather(owner, return_exceptions=True)
    assert (buffered.waiting, buffered.dropped) == (0, 1)
