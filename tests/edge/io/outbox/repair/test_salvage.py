"""Any damage to the outbox's files: nothing is delivered that was not accepted, and the books say what is missing."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import shutil
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import Random

import apsw
import pytest
from tests.support.dose import dose
from tests.support.edges import stored
from tests.support.spoil import HEAD_BITS, flip, spoil

from fairlead_edge.errors import NotOurs, StoreDamaged, StoreVersionUnknown
from fairlead_edge.io.encryption.keyring import DataKey
from fairlead_edge.io.encryption.sealed_files import SealedFiles
from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.io.outbox import store_clock
from fairlead_edge.io.outbox.repair import salvage
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.io.outbox.tables import schema
from fairlead_edge.io.sqlite import schema_pages
from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.age import ClockReading
from fairlead_edge.outbox.outbox import Entry, Reference, Refusal
from fairlead_edge.outbox.queues import QueueId

AT = "2026-11-20T12:00:00.000Z"
QUEUES = (QueueId("iothub", 0), QueueId("iothub", 3), QueueId("iothub"), QueueId("edge-1/m/in", 2))
FILES = (
    "outbox.db",
    "outbox.db-wal",
    "outbox.db.totals",
    "outbox.db.schema",
    "outbox.db.sealed-schema",
    "outbox.db.handed-out",
)


class World:
    """What applications were told, to compare with a store whose disk fails."""

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
            id, content = f"m{self.count}", stored.content(f"m{self.count}", json.dumps(body).encode())
            queues = self.random.sample(QUEUES, self.random.choice((1, 1, 2)))
            ttl = self.random.choice((None, 1e6))
            entries.append(Entry(id, content, tuple(Reference(queue, ttl, "default/t") for queue in queues)))
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

    async def check(self, box: SqliteOutbox, queues: Sequence[QueueId] = QUEUES) -> None:
        """Everything accepted was received, or is counted as damaged."""
        statuses = {QueueId(each.endpoint, each.priority): each for each in (await box.status(now=box.now())).queues}
        for each in statuses.values():
            assert each.length == 0, each
            assert each.accepted == each.sent + each.expired + each.evicted + each.damaged + each.dead_lettered, each
        for queue in queues:
            missing = set(self.accepted[queue]) - self.received[queue]
            counted = statuses[queue].damaged if queue in statuses else 0
            assert len(missing) <= counted, f"{queue}: {len(missing)} are missing, {counted} are counted"


def opened(folder: Path, epoch: int, access: FileAccess = PLAIN) -> SqliteOutbox:
    return SqliteOutbox(folder / "outbox.db", epoch=epoch, max_bytes=1 << 30, access=access)


def by_seed(patch: pytest.MonkeyPatch, seed: int) -> None:
    """Make everything else deterministic: names, clocks, and how much of the file a start checks."""
    names, clock = Random(seed), count()
    patch.setattr(salvage, "new_id", lambda: names.randbytes(16).hex())
    patch.setattr(store_clock, "boot_seconds", lambda: 1000 + next(clock) / 1000)
    patch.setattr(
        store_clock,
        "read",
        lambda: ClockReading(boot_id="b", boot_seconds=store_clock.boot_seconds(), wall_seconds=1e9),
    )
    patch.setattr(store_clock, "timestamp", lambda: AT)
    patch.setattr(salvage, "SECONDS_MAX", 0.0 if seed % 2 else 1e9)


async def live(folder: Path, seed: int, access: FileAccess = PLAIN) -> None:
    with pytest.MonkeyPatch.context() as patch:
        by_seed(patch, seed)
        await _live(folder, seed, access)


async def _live(folder: Path, seed: int, access: FileAccess) -> None:
    world = World(folder / "a", seed)
    world.folder.mkdir()
    box = opened(world.folder, 1, access)
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
        box = opened(world.folder, 2, access)
        try:
            await world.use(box, 10)
            await box.scrubber.audit_file()
            await world.drain(box)
        except StoreDamaged:  # what no look at the structure shows: the program opens it anew
            await box.close()
            box = opened(world.folder, 3, access)
            await world.drain(box)
        await box.close()
        box = opened(world.folder, 4, access)
        assert box.salvaged == "", "a salvaged file is sound"
        await world.drain(box)
        if not everywhere:  # where the file and what was kept beside it are damaged, not all can be known
            await world.check(box)
        await box.close()
    except BaseException as error:
        error.add_note(f"seed {seed}, {'killed' if killed else 'closed'}: {done}")
        raise


@pytest.mark.slow
@pytest.mark.parametrize("seed", dose(range(40), 10))
async def test_any_damage_is_survived_and_counted(tmp_path: Path, seed: int) -> None:
    """Whether stopped or killed, whichever file is damaged, and how."""
    async with asyncio.timeout(280):
        await live(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", dose(range(100, 130), 6))
async def test_any_damage_to_an_encrypted_store_is_survived_and_counted(tmp_path: Path, seed: int) -> None:

    key = DataKey("0a1b2c3d", Random(seed).randbytes(32))
    async with asyncio.timeout(280):
        await live(tmp_path, seed, SealedFiles(key, "outbox.db", random=Random(seed).randbytes))


async def test_a_damaged_owner_does_not_lock_the_node_out(tmp_path: Path) -> None:
    """One flipped letter must not make it another node's backlog, which would be refused."""
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


EDITS = (
    *(f"queues SET {name} = {value}" for name in ("sent", "expired", "evicted", "damaged", "accepted", "stored")
      for value in ("-1", "1 << 62", "'x'")),
    *(f"queues SET {name} = {value}" for name in ("next_offset", "checkpoint")
      for value in ("-2", "1 << 54", "(1 << 63) - 1", "'x'")),
    "queues SET priority = -1 WHERE id = 1",
    "queues SET priority = 1 << 40 WHERE id = 2",
    "queues SET checkpoint = next_offset + 2",
    "queues SET bytes = -1",
    "usage SET commits = 'x'",
    "usage SET commits = -1",
    "usage SET commits = 1 << 62",
    "usage SET bytes = 1 << 62",
    "clock SET age_seconds = 'x'",
    "clock SET age_seconds = 9e999",
    "clock SET boot_id = 7, boot_seconds = 'x'",
    "owner SET node = CAST(x'fffe' AS TEXT)",
    "owner SET node = 7",
)  # fmt: skip
"""What flipped bits, or a page in the place of another, make of the small tables."""
WHOLE_TABLES = ("DELETE FROM usage", "DELETE FROM queues", "DELETE FROM owner", "DELETE FROM clock")


@pytest.mark.parametrize(
    "is_kept", [pytest.param(True, id="totals"), pytest.param(False, id="no-totals", marks=pytest.mark.verify)]
)
@pytest.mark.parametrize("edit", [*(f"UPDATE {each}" for each in EDITS), *WHOLE_TABLES])
async def test_any_value_in_the_small_tables(tmp_path: Path, edit: str, is_kept: bool) -> None:
    """The store opens, is sound from then on, accepts and delivers; its totals add up, and nothing waiting is lost."""
    path = tmp_path / "outbox.db"
    world = World(tmp_path, 1)
    box = SqliteOutbox(path, epoch=1, max_bytes=1 << 30, node="edge-1")
    for _ in range(20):
        await world._publish(box)
    await world._deliver(box, QUEUES[0], 3)
    await box.close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA ignore_check_constraints=ON")
    connection.execute(edit)
    connection.close()
    if not is_kept:
        (tmp_path / "outbox.db.totals").unlink()
    try:
        box = SqliteOutbox(path, epoch=2, max_bytes=1 << 30, node="edge-1")
    except NotOurs:  # where nothing says whose it was, it cannot be known
        assert not is_kept and "owner" in edit
        return
    for _ in range(5):
        await world._publish(box)
    await world.drain(box)
    await box.close()
    box = SqliteOutbox(path, epoch=3, max_bytes=1 << 30, node="edge-1")
    assert box.salvaged == "", "a salvaged file is sound"
    await world.drain(box)
    known = QUEUES if is_kept or edit != "DELETE FROM queues" else QUEUES[:3]  # a brokered one's name is lost
    await world.check(box, known)
    assert not any(set(world.accepted[queue]) - world.received[queue] for queue in known)
    await box.close()


@pytest.mark.slow
async def test_any_bit_of_the_head(tmp_path: Path) -> None:
    before = World(tmp_path / "before", 3)
    before.folder.mkdir()
    box = opened(before.folder, 1)
    await before._publish(box)
    await box.close()
    for at, bit in HEAD_BITS:
        folder = shutil.copytree(before.folder, tmp_path / f"{at}-{bit}")
        world = copy.deepcopy(before)
        flip(folder / "outbox.db", at, bit)
        box = opened(folder, 2)
        await world._publish(box)
        await world.drain(box)
        assert world.received == {queue: set(world.accepted[queue]) for queue in QUEUES}, (at, bit)
        await box.close()
        box = opened(folder, 3)
        assert box.salvaged == ""
        await box.close()


async def test_a_store_of_another_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Its version is not damage, because the copy of the schema beside it has the same."""
    path = tmp_path / "outbox.db"
    await opened(tmp_path, 1).close()
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 99)
    file = os.open(path, os.O_RDONLY)
    schema_pages.keep(connection, file, tmp_path / "outbox.db.schema")
    os.close(file)
    connection.close()
    with pytest.raises(StoreVersionUnknown, match="99"):
        opened(tmp_path, 2)
    assert not (tmp_path / "outbox.db.damaged").exists()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(("DROP TABLE names", "DROP TABLE departed", "DROP TABLE reached"), id="gone"),
        pytest.param(("ALTER TABLE names DROP COLUMN ids", "ALTER TABLE departed DROP COLUMN among"), id="changed"),
    ],
)
async def test_tables_that_receipts_need_are_made_anew_and_nothing_else_changes(
    tmp_path: Path, changes: tuple[str, ...]
) -> None:
    """A store without these tables, or with a different schema of them, is sound: only receipts know less."""
    path = tmp_path / "outbox.db"
    box = opened(tmp_path, 1)
    queue, id = QUEUES[0], b"i" * 16
    entry = Entry(id.hex(), b'{"id":"%s"}' % id.hex().encode(), (Reference(queue),))
    await box.append([entry], now=0)
    await box.close()
    other = apsw.Connection(str(path))
    for statement in changes:
        other.execute(statement)
    other.close()
    (tmp_path / "outbox.db.schema").unlink()
    box = opened(tmp_path, 2)
    assert box.salvaged == "" and await box.whereabouts(id) == [] and await box.remembers_since() is None
    assert len(await box.fetch(queue, after=-1, now=0, messages_max=9, bytes_max=99)) == 1
    await box.append([entry], now=0)
    assert len(await box.whereabouts(id)) == 1
    await box.close()
    box = opened(tmp_path, 3)
    assert box.salvaged == "" and len(await box.whereabouts(id)) == 1
    await box.close()


# ---- before the outbox's file is used --------------------------------------------------------------------------------


def made(path: Path) -> None:
    connection = apsw.Connection(str(path))
    schema.prepare(connection)
    connection.close()


def test_a_sound_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    assert salvage.make_sound(path, None, epoch=1, thorough=True) == salvage.Sound("", is_audited=True)
    assert not path.exists()
    made(path)
    assert salvage.make_sound(path, None, epoch=1, thorough=True) == salvage.Sound("", is_audited=True)


def test_a_changed_schema_is_salvaged_before_the_file_is_used(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    made(path)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA writable_schema=ON")
    connection.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'runs(expires)', 'runs(expires COLLATE BINASY)')"
        " WHERE name = 'runs_by_expiry'"
    )
    connection.close()
    found = salvage.make_sound(path, None, epoch=1, thorough=True)
    assert "BINASY" in found.salvaged and found.is_audited
    assert (tmp_path / "outbox.db.damaged").exists()
    assert salvage.make_sound(path, None, epoch=2, thorough=True).salvaged == ""
