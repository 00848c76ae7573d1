"""Waking waiting readers."""

from __future__ import annotations

import asyncio

from fairlead_messaging.server.io.broker import Notifier


async def test_only_the_topics_own_listeners_are_woken() -> None:
    """Others go on waiting; none is left behind."""
    notifier = Notifier()
    one, other = notifier.subscribe(("n", "t")), notifier.subscribe(("n", "u"))
    notifier.notify({("n", "t"), ("n", "unheard")})
    assert (one.done(), other.done()) == (True, False)
    notifier.notify_all()
    await asyncio.gather(one, other)
    await asyncio.sleep(0)
    assert notifier.waiting == 0


async def test_a_cancelled_listener_is_forgotten() -> None:
    """A client that hung up costs nothing."""
    notifier = Notifier()
    waiting = notifier.subscribe(("n", "t"))
    waiting.cancel()
    notifier.notify({("n", "t")})
    await asyncio.sleep(0)  # callbacks of futures run in the loop's next round
    assert notifier.waiting == 0
