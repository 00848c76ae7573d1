"""The twin's own part; the shared promises are in the conformance suite."""

from __future__ import annotations

from tests.support.edges.held import config_map, put

from fairlead_edge.objects.memory_metastore import MemoryMetastore


async def test_the_twin_keeps_what_was_durable() -> None:
    """The simulation restarts an edge this way."""
    store = MemoryMetastore()
    await store.apply([put(config_map("a"))], now=0)
    again = store.reopened(50)
    await store.apply([put(config_map("b"))], now=0)
    assert (await again.summary()).held == 1 and again.log.version == 50
