"""The twin keeps to itself; what it does is in tests/conformance and tests/properties, beside the real one."""

from __future__ import annotations

from fairlead_edge.outbox.memory_outbox import MemoryOutbox
from fairlead_edge.outbox.outbox import Entry, Outbox, Reference
from fairlead_edge.outbox.queues import QueueId


async def test_two_twins_share_nothing() -> None:
    """And each is an outbox."""
    first, second = MemoryOutbox(epoch=1, max_bytes=100), MemoryOutbox(epoch=2, max_bytes=100)
    boxes: list[Outbox] = [first, second]
    await boxes[0].append([Entry("a", b"a", (Reference(QueueId("iothub")),))], now=0)
    assert await boxes[1].queues() == []
