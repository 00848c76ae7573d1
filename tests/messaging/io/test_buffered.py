"""Fire and forget, with counts."""

from __future__ import annotations

from tests.support.messaging import Topics, until

from fairlead_messaging.io.buffered import BufferedPublisher
from fairlead_messaging.io.client import MessagingClient


def publisher(client: MessagingClient, topic: str = "t", **limits: int) -> BufferedPublisher:
    return BufferedPublisher(client, "default", topic, producer_id="p", epoch=1, **limits)


async def test_everything_goes_out_in_order(topics: Topics) -> None:
    """In the background, and what is left on leaving."""
    await topics.create("t")
    async with MessagingClient(topics.url) as client, publisher(client) as buffered:
        for number in range(2500):
            assert buffered.publish(str(number).encode())
        await until(lambda: buffered.published > 0)
        buffered.publish(b"last")
    assert (buffered.published, buffered.dropped) == (2501, 0)
    assert await topics.payloads("t") == [*(str(number) for number in range(2500)), "last"]


async def test_what_does_not_fit_is_dropped_and_counted(topics: Topics) -> None:
    """By number and by bytes; the program never waits."""
    await topics.create("t")
    async with MessagingClient(topics.url) as client:
        buffered = publisher(client, waiting_messages_max=2, waiting_bytes_max=100)
        assert [buffered.publish(b"a"), buffered.publish(b"b"), buffered.publish(b"c")] == [True, True, False]
        assert not publisher(client, waiting_bytes_max=3).publish(b"abcd")
        assert buffered.dropped == 1
        async with buffered:
            await until(lambda: buffered.published == 2)


async def test_a_missing_topic_or_service_drops_in_the_end(topics: Topics) -> None:
    """Counted, and nothing is raised."""
    async with MessagingClient(topics.url) as client, publisher(client, "missing") as refused:
        refused.publish(b"a")
    async with MessagingClient("http://127.0.0.1:1") as client, publisher(client) as unreachable:
        unreachable.publish(b"a")
    assert (refused.dropped, unreachable.dropped) == (1, 1)
