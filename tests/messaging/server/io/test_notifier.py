"""Waking waiting readers."""

from __future__ import annotations

import asyncio

from fairlead_messaging.server.io.notifier import Bell


async def test_only_the_topics_own_listeners_are_woken() -> None:
    """Others go on waiting; nobody is left behind."""
    bell = Bell()
    one, other = bell.listen(("n", "t")), bell.listen(("n", "u"))
    bell.ring({("n", "t"), ("n", "unheard")})
    assert (one.done(), other.done()) == (True, False)
    bell.ring_all()
    await asyncio.gather(one, other)
    await asyncio.sleep(0)
    assert bell.listeners == 0


async def test_a_cancelled_listener_is_forgotten() -> None:
    """A client that hung up costs nothing."""
    bell = Bell()
    waiting = bell.listen(("n", "t"))
    waiting.cancel()
    bell.ring({("n", "t")})
    await asyncio.sleep(0)  # callbacks of futures run in the loop's next round
    assert bell.listeners == 0
