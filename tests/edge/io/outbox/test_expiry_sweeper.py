"""The cleaner: at the start, every interval, in small steps, both ways."""

from __future__ import annotations

import asyncio

import pytest

from fairlead_edge.errors import StoreFull
from fairlead_edge.io.outbox.upstream import ExpirySweeper
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.memory_outbox import MemoryOutbox
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import QueueId

REST = QueueId("iothub")


async def filled(*ttls: float | None) -> MemoryOutbox:
    box = MemoryOutbox(epoch=1, max_bytes=1 << 20)
    await box.append([Entry("", b"x", (Reference(REST, ttl),)) for ttl in ttls], now=0)
    return box


@pytest.mark.parametrize(("entire", "left"), [(True, 1 + 64), (False, 1 + 3 + 2 * 64)])
async def test_first_round_is_at_the_start_and_as_thorough_as_configured(entire: bool, left: int) -> None:
    """A full disk need not wait for the first interval."""
    box = await filled(1, 1, None, 1)
    sweeper = ExpirySweeper(box, clock=lambda: 2.0, interval_seconds=3600, entire=entire)
    running = asyncio.create_task(sweeper.run())
    for _ in range(10):  # the twin answers at once: a few turns of the loop are all it takes
        await asyncio.sleep(0)
    running.cancel()
    assert (await box.status(now=2)).bytes == left


async def test_sweep_goes_on_until_nothing_is_left() -> None:
    """In steps, so that producers get their turn."""
    box = await filled(*[1.0] * (2 * outbox.SWEEP_ROWS + 5))
    sweeper = ExpirySweeper(box, clock=lambda: 2.0, interval_seconds=3600, entire=True)
    assert await sweeper.sweep(entire=True) == 2 * outbox.SWEEP_ROWS + 5
    assert await sweeper.sweep(entire=True) == 0


async def test_full_disk_does_not_end_the_cleaner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removing needs a little room too; the next round tries again."""
    box = await filled(1)

    async def full(*, now: float, entire: bool) -> int:
        raise StoreFull("the disk is full")

    monkeypatch.setattr(box, "sweep", full)
    assert await ExpirySweeper(box, clock=lambda: 2.0, interval_seconds=3600, entire=True).sweep(entire=True) == 0
