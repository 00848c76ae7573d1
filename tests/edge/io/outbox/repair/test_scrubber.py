"""Everything that is held is looked at, soon after damage was met."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw

from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import QueueId

ALARMS, READINGS = QueueId("iothub", 0), QueueId("iothub", 5)


async def test_damage_that_is_met_brings_a_look_at_the_other_queues(tmp_path: Path) -> None:
    """A reader meets the one message; the scrub finds the other, which is not asked for."""
    box = SqliteOutbox(tmp_path / "outbox.db", epoch=1, max_bytes=1 << 20)
    await box.append([Entry("a", b'{"n": 1}', (Reference(ALARMS),)), Entry("b", b"{}", (Reference(READINGS),))], now=0)
    await box.close()
    connection = apsw.Connection(str(tmp_path / "outbox.db"))
    connection.execute("UPDATE references_ SET checksum = checksum + 1")
    connection.close()
    box = SqliteOutbox(tmp_path / "outbox.db", epoch=2, max_bytes=1 << 20)
    running = asyncio.create_task(box.scrubber.run())
    await box.fetch(ALARMS, after=-1, now=0, messages_max=10, bytes_max=1 << 20)

    async with asyncio.timeout(100):
        while {each.priority: each.damaged for each in (await box.status(now=0)).queues} != {0: 1, 5: 1}:  # noqa: ASYNC110 - counted by the writer
            await asyncio.sleep(0.01)
    running.cancel()
    await box.close()
