"""The line up as a whole: what its owner sees of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest
from tests.support.edges.upstream import FakeHub, body, open_upstream

from fairlead_edge.errors import StoreFailed, StoreFull
from fairlead_edge.io.outbox.upstream import ExpirySweeper
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.memory_outbox import MemoryOutbox
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import QueueId
from fairlead_wire.errors import LocalError


async def test_failed_disk_ends_the_run_with_its_own_error(tmp_path: Path) -> None:
    """Not wrapped in an exception group, because the program must recognise it."""
    hub = FakeHub()
    upstream = open_upstream(tmp_path / "outbox.db", hub)
    running = asyncio.create_task(upstream.run())
    hub.connect()

    def break_disk(connection: apsw.Connection) -> None:
        connection.execute("ROLLBACK")
        raise apsw.IOError("flush failed")

    with pytest.raises(StoreFailed):
        await upstream.outbox.writer.submit(break_disk)
    with pytest.raises(LocalError):
        await upstream.publisher.publish(body({}))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await upstream.outbox.close()


async def test_disk_that_fails_under_the_pump_is_reported_to_the_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = FakeHub()
    upstream = open_upstream(tmp_path / "outbox.db", hub)

    async def broken(*_: object, **__: object) -> None:
        raise StoreFailed("the disk failed")

    monkeypatch.setattr(upstream.outbox, "settle", broken)
    running = asyncio.create_task(upstream.run())
    hub.connect()
    await upstream.publisher.publish(body({}))
    async with asyncio.timeout(100):
        with pytest.raises(StoreFailed, match="the disk failed"):
            await running
    await upstream.outbox.close()


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
    box = await filled(*[1.0] * (2 * outbox.SWEEP_ROWS + 5))
    sweeper = ExpirySweeper(box, clock=lambda: 2.0, interval_seconds=3600, entire=True)
    assert await sweeper.sweep(entire=True) == 2 * outbox.SWEEP_ROWS + 5
    assert await sweeper.sweep(entire=True) == 0


async def test_full_disk_does_not_end_the_cleaner(monkeypatch: pytest.MonkeyPatch) -> None:
    box = await filled(1)

    async def full(*, now: float, entire: bool) -> int:
        raise StoreFull("the disk is full")

    monkeypatch.setattr(box, "sweep", full)
    assert await ExpirySweeper(box, clock=lambda: 2.0, interval_seconds=3600, entire=True).sweep(entire=True) == 0
