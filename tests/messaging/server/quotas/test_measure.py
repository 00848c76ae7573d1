"""What a namespace holds, measured in the store."""

from __future__ import annotations

from tests.support.topics.messaging import serving

from fairlead_messaging.server import quotas
from fairlead_messaging.server.quotas import MESSAGE_BYTES


async def test_what_lives_counts_and_what_waits_in_transactions() -> None:
    """Not what has expired, nor what a deleted topic held, nor other namespaces."""
    async with serving() as topics:
        await topics.create("t", ttl=10)
        await topics.publish("t", "12345", "1")

        async def held() -> dict[str, int]:
            now_ms = topics.clock.now_ms
            return await topics.broker.read(lambda kv: quotas.measure(kv, now_ms, lambda each: each == "default"))

        assert await held() == {"default": 6 + 2 * MESSAGE_BYTES}
        pointer, _ = await topics.start()
        await topics.store("t", "123", tx=pointer)
        assert await held() == {"default": 9 + 3 * MESSAGE_BYTES}
        await topics.finish(pointer, "abort")
        topics.clock.forward(20_000)
        await topics.publish("t", "1")
        assert await held() == {"default": 1 + MESSAGE_BYTES}
        await topics.ok("DELETE", "topics/t")
        assert await held() == {}
