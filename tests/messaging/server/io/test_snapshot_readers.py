"""Reads of one kind do not wait for those of another, and a store that fails is said to be away."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fairlead_messaging.api.errors import Unavailable
from fairlead_messaging.server.io.snapshot_readers import THREADS, SnapshotReaders
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import Snapshot


async def test_a_probe_does_not_wait_behind_polls() -> None:
    """However many of them there are; a bulk page does not either."""
    readers, go = SnapshotReaders(MemoryKV()), threading.Event()

    def slow(snapshot: Snapshot) -> None:
        go.wait(60)

    polls = [asyncio.create_task(readers.read(slow)) for _ in range(2 * THREADS)]
    async with asyncio.timeout(100):
        assert await readers.read(lambda snapshot: "probe", probe=True) == "probe"
        assert await readers.read(lambda snapshot: "bulk", sequential=True) == "bulk"
    go.set()
    await asyncio.gather(*polls)
    await readers.close()


async def test_a_store_that_cannot_be_read_is_asked_again_later() -> None:
    """503, not a defect."""
    kv = MemoryKV()
    kv.close()
    readers = SnapshotReaders(kv)
    with pytest.raises(Unavailable) as refused:
        await readers.read(lambda snapshot: None)
    assert refused.value.code == "storage_failed"
    await readers.close()
