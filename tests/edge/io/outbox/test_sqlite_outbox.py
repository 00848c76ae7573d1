"""The outbox over restarts: everything is there again, under its own epoch and with its own age."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import apsw
import pytest
from tests.support.edges.upstream import until

from fairlead_edge.errors import NotOurs, StoreDamaged
from fairlead_edge.io.outbox import store_clock
from fairlead_edge.io.outbox.repair import salvage
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.outbox import age
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import NOTHING_DONE, QueueId

ALARMS = QueueId("iothub", 0)


def opened(folder: Path, epoch: int = 1) -> SqliteOutbox:
    return SqliteOutbox(folder / "outbox.db", epoch=epoch, max_bytes=1 << 20)


async def test_restart_finds_queues_messages_and_counters(tmp_path: Path) -> None:
    box = opened(tmp_path, epoch=1)
    await box.append([Entry("a", b"a", (Reference(ALARMS, 60, "d/t"),))], now=0)
    await box.close()
    box = opened(tmp_path, epoch=2)
    assert await box.queues() == [ALARMS]
    await box.append([Entry("b", b"b", (Reference(ALARMS),))], now=1)
    items = await box.fetch(ALARMS, after=NOTHING_DONE, now=1, messages_max=9, bytes_max=999)
    assert [(item.offset, item.epoch, item.content) for item in items] == [(0, 1, b"a"), (1, 2, b"b")]
    assert (await box.status(now=1)).queues[0].accepted == 2
    await box.close()


async def test_clock_goes_on_over_a_reboot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message ages while the machine is off, and a wall clock that is set back brings nothing back."""
    reading = age.ClockReading(boot_id="one", boot_seconds=100, wall_seconds=5000)
    monkeypatch.setattr(store_clock, "read", lambda: reading)
    monkeypatch.setattr(store_clock, "boot_seconds", lambda: reading.boot_seconds)
    box = opened(tmp_path)
    reading = age.ClockReading(boot_id="one", boot_seconds=130, wall_seconds=5030)
    assert box.now() == 30
    await box.close()
    reading = age.ClockReading(boot_id="two", boot_seconds=7, wall_seconds=5107)
    box = opened(tmp_path)
    assert box.now() == 30 + 70 + 7
    await box.close()
    reading = age.ClockReading(boot_id="three", boot_seconds=7, wall_seconds=0)
    box = opened(tmp_path)
    assert box.now() == 30 + 70 + 7 + 7
    await box.close()


async def test_clock_is_stamped_at_once(tmp_path: Path) -> None:
    """A power cut may come within the first ten seconds."""
    box = opened(tmp_path)
    keeping = asyncio.create_task(box.keep_time())
    await until(lambda: box.writer.commits > 0)
    keeping.cancel()
    assert await box.writer.read(lambda connection: connection.execute("SELECT count(*) FROM clock").fetchall()) == [
        (1,)
    ]
    await box.close()


@pytest.mark.slow
async def test_drained_store_gives_its_room_back(tmp_path: Path) -> None:
    """After a long outage the disk space is returned, except for a little that the next outage may need."""
    box = SqliteOutbox(tmp_path / "outbox.db", epoch=1, max_bytes=1 << 30)
    count = 24
    for _ in range(count):
        await box.append([Entry("", os.urandom(1 << 20), (Reference(ALARMS),))], now=0)
    assert await box.shrink() == 0
    await box.settle(ALARMS, sent=range(count), checkpoint=count - 1, at="t")
    given = 0
    while step := await box.shrink():
        given += step
    await box.close()
    size = (tmp_path / "outbox.db").stat().st_size
    assert given > 8 << 20 and size + given > 24 << 20
    assert size < 18 << 20


async def test_a_large_file_is_looked_through_while_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start does not wait for the check; damage found later ends the use, and the next opening is thorough."""
    monkeypatch.setattr(salvage, "SECONDS_MAX", -1.0)
    monkeypatch.setattr(salvage, "PROGRESS_STEPS", 1)
    box = opened(tmp_path)
    await box.append([Entry(str(n), b"{}", (Reference(ALARMS),)) for n in range(500)], now=0)
    await box.scrubber.audit_file()
    assert box.writer.failure is None
    await box.close()
    connection = apsw.Connection(str(tmp_path / "outbox.db"))
    connection.execute("DELETE FROM references_ WHERE offset = 77")
    connection.close()
    box = opened(tmp_path)
    assert box.salvaged == "" and (await box.status(now=0)).queues[0].length == 500
    keeping = asyncio.create_task(box.scrubber.run())
    await box.writer.failed.wait()
    with pytest.raises(StoreDamaged, match="differs from its count"):
        await box.sweep(now=0, entire=True)
    keeping.cancel()
    await box.close()
    box = SqliteOutbox(tmp_path / "outbox.db", epoch=2, max_bytes=1 << 20, thorough=True)
    [queue] = (await box.status(now=0)).queues
    assert (queue.damaged, queue.length, queue.dead_lettered) == (1, 499, 1), "a gap without a topic is a dead letter"
    await box.close()


async def test_a_store_cloned_under_another_name_is_refused_while_it_holds_anything(tmp_path: Path) -> None:
    """Its backlog would arrive twice; an empty store, or one without an owner, is taken over."""
    path = tmp_path / "outbox.db"
    first = SqliteOutbox(path, epoch=1, max_bytes=1 << 20)
    await first.append([Entry("a", b"{}", (Reference(QueueId("iothub", 1)),))], now=0)
    await first.close()
    await SqliteOutbox(path, epoch=2, max_bytes=1 << 20, node="edge-1").close()
    with pytest.raises(NotOurs, match=r"1 undelivered messages of node 'edge-1', .* correct node in the settings"):
        SqliteOutbox(path, epoch=3, max_bytes=1 << 20, node="edge-2")
    again = SqliteOutbox(path, epoch=4, max_bytes=1 << 20, node="edge-1")
    await again.settle(QueueId("iothub", 1), sent=[0], checkpoint=0, at="")
    await again.close()
    await SqliteOutbox(path, epoch=5, max_bytes=1 << 20, node="edge-2").close()
