"""Producers at hand are a cache; what is known of them is in the store."""

from __future__ import annotations

from tests.support.topics.messaging_core import Core, producer, publish

from fairlead_messaging.server.producers import PRODUCERS_CACHED_MAX


def test_forgotten_producers_are_read_again() -> None:
    """The cache has a limit, what is known has none."""
    core = Core()
    core.create("t")
    core.do(publish("t", "a", producer=producer(0)))
    for epoch in range(2, PRODUCERS_CACHED_MAX + 10):
        core.service._topics.of(("n", "t")).producers.known(core.topic("t"), "p", epoch)
    core.service._topics.of(("n", "t")).producers.trim()
    assert core.do(publish("t", "a", producer=producer(0))).known == (0,)
