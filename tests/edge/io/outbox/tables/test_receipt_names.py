"""Names in the real store, against a plain dict: whatever happens to messages, no receipt is false.

accept, send (acked, refused in part, answer lost), let a module take, expire, evict, replay; kill between any two
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Final

import apsw
import msgspec
import pytest
from tests.support.dose import dose
from tests.support.edges.outbox_tables import append, count, settle, tables

from fairlead_edge.errors import StoreFull
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.io.outbox.tables import receipt_tables
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.outbox import Entry, Item, Reference, Refusal
from fairlead_edge.outbox.queues import QueueId
from fairlead_edge.outbox.receipts import departure, marks
from fairlead_edge.outbox.receipts.receipt import DeadLettered, LeftQueue, Waiting
from fairlead_wire import message

UP, LATER, MODULE = QueueId("iothub", 0), QueueId("iothub", 1), QueueId("edge-1/m/in", 1)
QUEUES: Final = (UP, LATER, MODULE)
TOPICS: Final = ("n/t", "n/u")
AUTHORS: Final = (marks.NO_AUTHOR, b"auth", b"else")
STEPS: Final = 40


class Known(msgspec.Struct):
    """What the dict says of one message in one queue."""

    state: str
    topic: str
    author: bytes
    enqueued: float
    expires: float | None


class World:
    """A store, a topic, and the dict they are compared with."""

    def __init__(self, folder: Path, seed: int, *, max_bytes: int) -> None:
        self.draw = Random(seed)
        self.folder, self.max_bytes = folder, max_bytes
        self.epoch = self.lives = 0
        self.now = 1.0
        self.model: dict[bytes, dict[QueueId, Known]] = {}
        self.places: dict[tuple[int, str, int], int] = {}
        """Positions by (epoch, stream, offset), each counted for all topics."""
        self.standing: dict[tuple[bytes, QueueId], int] = {}
        self.newest = 0
        self.box = self._open()

    def _open(self) -> SqliteOutbox:
        self.epoch += 1
        (self.folder / str(self.lives)).mkdir(exist_ok=True)
        path = self.folder / str(self.lives) / "outbox.db"
        return SqliteOutbox(path, epoch=self.epoch, max_bytes=self.max_bytes)

    async def kill(self) -> None:
        """Continue with a copy of what is on disk now, as after a kill."""
        before, self.lives = self.folder / str(self.lives), self.lives + 1
        shutil.copytree(before, self.folder / str(self.lives))
        await self.box.close()
        shutil.rmtree(before)
        self.box = self._open()
        assert self.box.salvaged == ""

    async def accept(self) -> None:
        """One request: one author, any routes."""
        author = self.draw.choice(AUTHORS)
        entries = []
        for _ in range(self.draw.choice((1, 1, 2, 7, 30))):
            id = self.draw.randbytes(16)
            signed = f',"systemProperties":{{"{marks.MODULE_PROPERTY}":"x"}}' if author != marks.NO_AUTHOR else ""
            content = f'{{"id":"{id.hex()}"{signed},"body":"{"-" * self.draw.randrange(200)}"}}'.encode()
            found = self.draw.sample(QUEUES, self.draw.choice((1, 1, 1, 2)))
            references = tuple(
                Reference(queue, self.draw.choice((None, 20.0)), "" if queue == MODULE else self.draw.choice(TOPICS))
                for queue in found
            )
            entries.append(Entry(id.hex(), content, references, id + author))
        before = await self.present()
        try:
            await self.box.append(entries, now=self.now, evict=True)
        except StoreFull:
            return
        for each in entries:
            self.model[bytes.fromhex(each.id)] = {
                to.queue: Known("waiting", to.topic, each.mark[16:], self.now, _after(self.now, to.ttl_seconds))
                for to in each.references
            }
        await self.gone(before, "evicted")

    async def present(self) -> set[tuple[QueueId, bytes]]:
        found = set()
        for queue in QUEUES:
            for item in await self.box.fetch(queue, after=-1, now=0, messages_max=10**6, bytes_max=10**9):
                found.add((queue, marks.id_in(item.content)))
        return found

    async def gone(self, before: set[tuple[QueueId, bytes]], outcome: str) -> None:
        for queue, id in before - await self.present():
            self.model[id][queue].state = outcome

    async def expire(self) -> None:
        self.now += self.draw.choice((1.0, 10.0, 30.0))
        before = await self.present()
        while await self.box.sweep(now=self.now, entire=True):
            pass
        await self.gone(before, "expired")
        assert all(
            each.expires is None or each.expires > self.now or each.state != "waiting"
            for ways in self.model.values()
            for each in ways.values()
        )

    async def send(self) -> None:
        """Send a batch: its answer accepts it, refuses some of it, or is lost with the agent."""
        queue = self.draw.choice((UP, LATER))
        items = await self.box.fetch(
            queue, after=-1, now=self.now, messages_max=self.draw.choice((1, 5, 64)), bytes_max=10**9, leaving=True
        )
        if not items:
            return
        refused = self._refused(items)
        ack = self._store(queue, items, refused)
        if not self.draw.randrange(4):
            await self.kill()  # the topic has them, and the agent does not know
            return
        self.now += 0.5
        await self.box.settle(
            queue,
            sent=[item.offset for index, item in enumerate(items) if index not in refused],
            refused=[Refusal(items[index].offset, "bad", "why") for index in refused],
            checkpoint=items[-1].offset,
            at="2026-11-23T00:00:00Z",
            departures=departure.departures(items, ack, now=self.now),
        )
        for index, item in enumerate(items):
            self.model[marks.id_in(item.content)][queue].state = "buried" if index in refused else "in_topic"

    def _refused(self, items: list[Item]) -> set[int]:
        if self.draw.randrange(3):
            return set()
        return {index for index in range(len(items)) if not self.draw.randrange(3)}

    def _store(self, queue: QueueId, items: list[Item], refused: set[int]) -> message.Ack:
        groups: dict[tuple[str, int], list[int]] = {}
        for index, item in enumerate(items):
            groups.setdefault((item.topic, item.epoch), []).append(index)
        positions = []
        for indexes in groups.values():
            taken = [index for index in indexes if index not in refused]
            names_of = {index: (items[index].epoch, str(queue), items[index].offset) for index in taken}
            fresh = [index for index in taken if names_of[index] not in self.places]
            first = self.newest + 1
            for index in fresh:
                self.newest += 1
                self.places[names_of[index]] = self.newest
                self.standing[marks.id_in(items[index].content), queue] = self.newest
            exact = position(first) if len(fresh) == len(taken) > 0 else ""
            positions.append(
                message.TopicPosition(
                    index=indexes[0], service="s", generation=1, first=exact, newest=position(self.newest)
                )
            )
        said = [message.RefusedItem(index=index, code="bad", reason="why") for index in sorted(refused)]
        return message.Ack(parent_id=1, refused=said, positions=positions)

    async def take(self) -> None:
        """A module takes some messages, in any order; receipts do not remember those."""
        items = await self.box.fetch(MODULE, after=-1, now=self.now, messages_max=30, bytes_max=10**9, leaving=True)
        taken = [item for item in items if self.draw.randrange(2)]
        self.box.in_flight.release(MODULE, [item.offset for item in items if item not in taken])
        await self.box.settle(MODULE, sent=[item.offset for item in taken], checkpoint=-1, at="t")
        for item in taken:
            self.model[marks.id_in(item.content)][MODULE].state = "taken"

    async def replay(self) -> None:
        letters = await self.box.dead_letters()
        chosen = [each for each in letters if self.draw.randrange(2)]
        try:
            await self.box.replay([each.number for each in chosen], now=self.now)
        except StoreFull:
            return
        for each in chosen:
            known = self.model[marks.id_in(each.content)][each.queue]
            known.state, known.enqueued = "waiting", self.now
            known.author = marks.author_in(each.content)
            known.expires = _after(self.now, each.ttl_seconds)

    async def step(self) -> None:
        chosen = self.draw.choice(
            [self.accept] * 3 + [self.send] * 4 + [self.take, self.expire, self.replay, self.kill]
        )
        await chosen()

    async def check(self, ids: list[bytes], *, forgets: bool) -> None:
        """Every receipt agrees with the dict; nothing is forgotten unless the ring is small."""
        for id in ids:
            expected = {queue: known for queue, known in self.model[id].items() if known.state != "taken"}
            ways = {way.queue: way for way in await self.box.whereabouts(id)}
            assert set(ways) <= set(expected), "it went that way, and nothing is to be known of it"
            for queue, known in expected.items():
                way = ways.get(queue)
                match way:
                    case None:
                        assert forgets and known.state in ("in_topic", "expired", "evicted"), known
                    case Waiting():
                        assert (known.state, way.topic, way.enqueued) == ("waiting", known.topic, known.enqueued)
                    case DeadLettered():
                        assert (known.state, way.topic) == ("buried", known.topic)
                    case LeftQueue():
                        said = (way.departure.outcome, way.departure.topic, way.author, way.entry.enqueued)
                        assert said == (known.state, known.topic, known.author, known.enqueued)
                        if known.state == "in_topic":
                            stands = position(self.standing[id, queue])
                            at = way.entry.position
                            assert at == stands if way.entry.is_exact else at >= stands


def _after(now: float, seconds: float | None) -> float | None:
    return None if seconds is None else now + seconds


def position(number: int) -> str:
    return f"{number:020x}" + "0" * 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", dose([1, 2, 3], first=1))
@pytest.mark.parametrize("ring", [pytest.param(1 << 23, id="ring"), pytest.param(2_000, id="small-ring")])
async def test_receipts_agree_with_a_dict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ring: int, seed: int
) -> None:
    """A small ring forgets; what it still knows is right, and forgotten names are deleted."""
    monkeypatch.setattr(receipt_tables, "RING_BYTES_MAX", ring)
    monkeypatch.setattr(receipt_tables, "RING_PARTS", 4)
    world = World(tmp_path, seed, max_bytes=6_000)
    for _ in range(STEPS):
        await world.step()
        known = sorted(world.model)
        await world.check(world.draw.sample(known, min(len(known), 12)), forgets=ring < 10_000)
    await world.check(sorted(world.model), forgets=ring < 10_000)
    kept = await world.box.writer.read(lambda connection: rows(connection, "SELECT number, length(ids) FROM names"))
    waiting = await world.present()
    await world.box.close()
    if ring < 10_000:
        assert sum(size for _, size in kept) <= 3 * ring + 16 * 40 * len(waiting)


@pytest.fixture
def connection() -> apsw.Connection:
    return tables()


def entry(number: int, queue: QueueId = UP) -> Entry:
    id = (number + 1).to_bytes(16, "big")
    return Entry(id.hex(), b'{"id":"%s"}' % id.hex().encode(), (Reference(queue, None, "n/t"),), id + marks.NO_AUTHOR)


def test_rows_are_numbered_by_queue_and_offset(connection: apsw.Connection) -> None:
    append(connection, *(entry(number) for number in range(5_000)))
    append(connection, entry(6_000, LATER))
    assert rows(connection, "SELECT number, span FROM names ORDER BY number") == [
        (receipt_tables.OFFSETS_MAX, 4095),
        (receipt_tables.OFFSETS_MAX + 4096, 903),
        (2 * receipt_tables.OFFSETS_MAX, 0),
    ]


def test_what_an_older_program_took_out_is_dropped_at_the_next_opening(connection: apsw.Connection) -> None:
    """Up to what still waits or is remembered."""
    for number in range(4):
        append(connection, entry(number))
    page = departure.Departure(outcome="in_topic", left_at=1.0, topic="n/t", epoch=1, low=1, high=1)
    settle(connection, UP, 1, departures=[page])
    rows(connection, "DELETE FROM references_ WHERE offset IN (0, 2)")
    receipt_tables.drop_names_below(connection)
    assert [number - receipt_tables.OFFSETS_MAX for (number,) in rows(connection, "SELECT number FROM names")] == [
        1,
        2,
        3,
    ]
    rows(connection, "DELETE FROM departed")
    receipt_tables.drop_names_below(connection)
    assert [number - receipt_tables.OFFSETS_MAX for (number,) in rows(connection, "SELECT number FROM names")] == [3]
    rows(connection, "DELETE FROM references_")
    receipt_tables.drop_names_below(connection)
    assert count(connection, "names") == 0


def test_a_queue_without_an_end_goes_on_without_receipts(connection: apsw.Connection) -> None:
    """Offsets beyond those that a row number can express, as after damage."""
    receipt_tables.keep_names(connection, 1, 1, 1.0, [receipt_tables.OFFSETS_MAX], [b"i" * 20])
    receipt_tables.keep_names(connection, receipt_tables.QUEUES_MAX, 1, 1.0, [5], [b"i" * 20])
    receipt_tables.keep_names(connection, 1, 1, 1.0, [-5], [b"i" * 20])
    assert count(connection, "names") == 0
    receipt_tables.drop_names(connection, 1, [receipt_tables.OFFSETS_MAX])
    receipt_tables.drop_names(connection, 2**60, [5])


def test_names_of_far_apart_messages_are_dropped_in_stretches(connection: apsw.Connection) -> None:
    """Without visiting the offsets between them."""
    for number in range(3):
        append(connection, entry(number))
    settle(connection, UP, 0, 2)
    assert [number - receipt_tables.OFFSETS_MAX for (number,) in rows(connection, "SELECT number FROM names")] == [1]
    receipt_tables.drop_names(connection, 1, [0, 1, 10**9, 10**12])
    assert count(connection, "names") == 1, "it waits"


def test_a_run_of_several_rows_leaves_none_of_them(connection: apsw.Connection) -> None:
    """The runs of a request with different destinations are interleaved, and longer than a row of names."""
    ways = [(Reference(MODULE, seconds, ""),) for seconds in (None, 10.0, 20.0)]
    taken = [
        Entry(each.id, each.content, ways[number % 3], each.mark) for number in range(5_100) for each in [entry(number)]
    ]
    append(connection, *taken)
    assert count(connection, "names") == 6
    for begin in range(0, 5_100, 100):
        settle(connection, MODULE, *range(begin, begin + 100))
    assert count(connection, "names") == 0


@pytest.mark.parametrize("value", [-79, 4096, 2**31, 2**36, 2**63 - 1, "text", b"blob"])
@pytest.mark.parametrize(("table", "column"), [("names", "span"), ("departed", "high"), ("departed", "low")])
def test_a_length_that_the_disk_changed_keeps_nothing_from_leaving(
    connection: apsw.Connection, table: str, column: str, value: object
) -> None:
    """A flipped bit must not stop deliveries, nor cost memory or time."""
    for begin in range(0, 12, 4):
        append(connection, *(entry(begin + each) for each in range(4)))
    page = departure.Departure(outcome="in_topic", left_at=1.0, topic="n/t", epoch=1, low=0, high=1)
    settle(connection, UP, 0, 1, departures=[page])
    connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
    settle(connection, UP, refused=(Refusal(4, "bad", "why"),))
    settle(connection, UP, *range(5, 12))
    settle(connection, UP, 2, 3)
    assert count(connection, "references_") == 0
