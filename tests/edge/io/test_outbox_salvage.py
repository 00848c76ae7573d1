"""Any damage to the outbox's files: nothing is delivered that was not accepted, and the books say what is missing."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from random import Random

import apsw
import pytest
from tests.support.spoil import spoil

from fairlead_edge import envelope
from fairlead_edge.errors import NotOurs, StoreDamaged
from fairlead_edge.io.sqlite_outbox import SqliteOutbox
from fairlead_edge.outbox import Entry, Reference, Refusal
from fairlead_edge.queue_id import QueueId

AT = "2026-11-20T12:00:00.000Z"
QUEUES = (QueueId("iothub", 0), QueueId("iothub", 3), QueueId("iothub"), QueueId("edge-1/m/in", 2))
FILES = ("outbox.db", "outbox.db-wal", "outbox.db.totals", "outbox.db.schema")


class World:
    """What an application was told, by the side of a store whose disk fails."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = Random(seed)
        self.accepted: dict[QueueId, dict[str, bytes]] = {queue: {} for queue in QUEUES}
        self.ended: dict[QueueId, set[str]] = {queue: set() for queue in QUEUES}
        self.received: dict[QueueId, set[str]] = {queue: set() for queue in QUEUES}
        self.count = 0

    async def use(self, box: SqliteOutbox, steps: int) -> None:
        for _ in range(steps):
            if self.random.random() < 0.6:
                await self._publish(box)
            else:
                await self._deliver(box, self.random.choice(QUEUES), self.random.choice((1, 7, 40)))

    async def _publish(self, box: SqliteOutbox) -> None:
        entries = []
        for _ in range(self.random.choice((1, 1, 8, 30))):
            self.count += 1
            body = {"n": self.count, "pad": self.random.randbytes(self.random.choice((0, 20, 900))).hex()}
            message = envelope.Stored(
                id=f"m{self.count}",
                source="/messages",
                enqueued_at=AT,
                properties={},
                system_properties={},
                body=json.dumps(body).encode(),  # type: ignore[arg-type]
            )
            queues = self.random.sample(QUEUES, self.random.choice((1, 1, 2)))
            ttl = self.random.choice((None, 1e6))
            content = envelope.stored(message)
            entries.append(Entry(message.id, content, tuple(Reference(queue, ttl, "default/t") for queue in queues)))
        await box.append(entries, now=box.now())
        for entry in entries:
            for reference in entry.references:
                self.accepted[reference.queue][entry.id] = entry.content

    async def _deliver(self, box: SqliteOutbox, queue: QueueId, most: int) -> int:
        items = await box.fetch(queue, after=-1, now=box.now(), messages_max=most, bytes_max=1 << 18)
        for item in items:
            message = envelope.read(item.content)
            if message.source == "/fairlead/gaps":
                continue
            assert self.accepted[queue].get(message.id) == item.content, f"delivered something else: {message.id}"
            assert item.topic == "default/t"
            self.received[queue].add(message.id)
        refused = [Refusal(items[0].offset, "no", "why")] if items and self.random.random() < 0.1 else []
        sent = [item.offset for item in items[len(refused) :]]
        if items:
            await box.settle(queue, sent=sent, refused=refused, checkpoint=items[-1].offset, at=AT)
        return len(items)

    async def drain(self, box: SqliteOutbox) -> None:
        for queue in QUEUES:
            rounds = 0
            while await self._deliver(box, queue, 50):
                rounds += 1
                assert rounds < 1000, "it does not come to an end"

    async def check(self, box: SqliteOutbox) -> None:
        """Everything accepted was received, or is counted."""
        statuses = {QueueId(each.endpoint, each.priority): each for each in (await box.status(now=box.now())).queues}
        for told in statuses.values():
            assert told.length == 0, told
            assert told.accepted == told.sent + told.expired + told.evicted + told.damaged + told.dead_lettered, told
        for queue in QUEUES:
            missing = set(self.accepted[queue]) - self.received[queue]
            counted = statuses[queue].damaged if queue in statuses else 0
            assert len(missing) <= counted, f"{queue}: {len(missing)} are missing, {counted} are counted"


def opened(folder: Path, epoch: int) -> SqliteOutbox:
    return SqliteOutbox(folder / "outbox.db", epoch=epoch, max_bytes=1 << 30)


async def live(folder: Path, seed: int) -> None:
    world = World(folder / "a", seed)
    world.folder.mkdir()
    box = opened(world.folder, 1)
    await world.use(box, world.random.choice((3, 20, 60)))
    if killed := world.random.random() < 0.6:
        shutil.copytree(world.folder, folder / "b")
        await box.close()
        world.folder = folder / "b"
    else:
        await box.close()
    (world.folder / "outbox.db-shm").unlink(missing_ok=True)
    there = [world.folder / name for name in FILES if (world.folder / name).exists()]
    file = world.random.choice([*there, world.folder / "outbox.db", there[min(1, len(there) - 1)]])
    done = [spoil(file, world.random) for _ in range(world.random.choice((1, 1, 3)))]
    everywhere = world.random.random() < 0.2
    if everywhere:
        done += [spoil(world.random.choice(there), world.random) for _ in range(4)]
    try:
        box = opened(world.folder, 2)
        try:
            await world.use(box, 10)
            await world.drain(box)
        except StoreDamaged:  # what no look at the structure shows: the program opens it anew
            await box.close()
            box = opened(world.folder, 3)
            await world.drain(box)
        await box.close()
        box = opened(world.folder, 4)
        assert box.salvaged == "", "a salvaged file is sound"
        await world.drain(box)
        if not everywhere:  # where the file and what was kept beside it are damaged, not all can be known
            await world.check(box)
        await box.close()
    except BaseException as error:
        error.add_note(f"seed {seed}, {'killed' if killed else 'closed'}: {done}")
        raise


@pytest.mark.parametrize("seed", range(40))
async def test_any_damage_is_survived_and_counted(tmp_path: Path, seed: int) -> None:
    """Stopped or killed, whichever file, whatever was done to it."""
    async with asyncio.timeout(120):
        await live(tmp_path, seed)


async def test_a_damaged_owner_locks_nobody_out(tmp_path: Path) -> None:
    """One flipped letter does not make it another node's backlog; what another node accepted still is refused."""
    path = tmp_path / "outbox.db"
    box = SqliteOutbox(path, epoch=1, max_bytes=1 << 20, node="edge-1")
    await box.append([Entry("a", b"{}", (Reference(QUEUES[0], None, "default/t"),))], now=0)
    await box.close()
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE owner SET node = 'edge-q'")
    connection.close()
    box = SqliteOutbox(path, epoch=2, max_bytes=1 << 20, node="edge-1")
    assert box.salvaged == "its owner was changed"
    assert [each.length for each in (await box.status(now=0)).queues] == [1]
    await box.close()
    with pytest.raises(NotOurs):
        SqliteOutbox(path, epoch=3, max_bytes=1 << 20, node="edge-2")
