"""Rows the disk changed: never delivered, always counted, reported in their place; the rest goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.support.edges import stored

from fairlead_edge.errors import StoreFull
from fairlead_edge.io.outbox.repair import damage
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.outbox import Entry, IdempotencyKey, QueueCounts, Reference, Refusal
from fairlead_edge.outbox.queues import QueueId

REST, MODULE = QueueId("iothub"), QueueId("edge-1/m/in", 3)
AT = "2026-11-20T12:00:00.000Z"


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[SqliteOutbox]:
    opened = SqliteOutbox(tmp_path / "outbox.db", epoch=41, max_bytes=1 << 20)
    yield opened
    await opened.close()


def entry(number: int, *queues: QueueId, ttl: float | None = None) -> Entry:
    content = stored.content(f"m{number}", body_base64="AAAA")
    return Entry("", content, tuple(Reference(queue, ttl, "default/t") for queue in queues))


async def run(box: SqliteOutbox, statement: str, *bound: Any) -> None:
    await box.writer.submit(lambda connection: connection.execute(statement, bound).fetchall())


async def fetched(
    box: SqliteOutbox, queue: QueueId = REST, now: float = 0.0, most: int = 99
) -> list[envelope.StoredMessage]:
    items = await box.fetch(queue, after=-1, now=now, messages_max=most, bytes_max=1 << 20)
    return [envelope.read(item.content) for item in items]


async def status_of(box: SqliteOutbox, queue: QueueId = REST, now: float = 0.0) -> QueueCounts:
    [found] = [each for each in (await box.status(now=now)).queues if each.queue == str(queue)]
    ended = found.sent + found.expired + found.evicted + found.dead_lettered + found.damaged
    assert found.accepted == ended + found.length, found
    return found


SPOILS = {
    "body": "UPDATE segments SET encoding = '', content = CAST(replace(content, 'm2', 'm7') AS BLOB) WHERE id = 1",
    "place": "UPDATE references_ SET start = start + 1 WHERE offset = 2",
    "size": "UPDATE references_ SET size = 'x' WHERE offset = 2",
    "checksum": "UPDATE references_ SET checksum = NULL WHERE offset = 2",
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS.keys())
async def test_one_damaged_message_harms_itself_alone(
    box: SqliteOutbox, monkeypatch: pytest.MonkeyPatch, spoil: str
) -> None:
    monkeypatch.setattr("fairlead_edge.io.outbox.tables.bodies.LEVEL", 1)
    monkeypatch.setattr("fairlead_edge.io.outbox.tables.bodies.pack", lambda content: ("", content))
    await box.append([entry(number, REST) for number in range(5)], now=0)
    await run(box, spoil)
    found = await fetched(box)
    assert [message.id for message in found[:4]] == ["m0", "m1", "m3", "m4"]
    assert found[4].source == "/fairlead/gaps"
    body = json.loads(bytes(found[4].body))  # type: ignore[arg-type]
    assert (body["queue"], body["from_sequence"], body["to_sequence"], body["count"]) == ("iothub", 2, 2, 1)
    await box.scrubber.scrub()
    status = await status_of(box)
    assert (status.accepted, status.damaged, status.length) == (6, 1, 5)
    assert status.bytes == sum(len(envelope.stored(message)) for message in found)


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE runs SET topic = 'default/other'",
        "UPDATE runs SET topic = CAST(x'ff00fe' AS TEXT)",
        "UPDATE runs SET expires = NULL",
        "UPDATE runs SET epoch = 7",
        "UPDATE runs SET enqueued = 'x'",
        "UPDATE queues SET priority = 3",
        "DELETE FROM runs",
        "DELETE FROM segments",
        "UPDATE segments SET content = zeroblob(9)",
        "UPDATE segments SET encoding = CAST(x'ff' AS TEXT)",
    ],
)
async def test_nothing_with_a_damaged_envelope_is_sent(box: SqliteOutbox, spoil: str) -> None:
    """The envelope says where a message goes and until when; a whole damaged request is one gap."""
    await box.append([entry(number, REST, ttl=50) for number in range(5)], now=0)
    await run(box, spoil)
    [queue] = await box.queues()
    found = await fetched(box, queue)
    assert [message.source for message in found] in ([], ["/fairlead/gaps"])
    status = await status_of(box, queue)
    assert (status.damaged, status.accepted) == (5, 6)
    [*letters] = await box.dead_letters()
    assert len(letters) + len(found) == 1
    assert await fetched(box, queue) == found, "and it is done once"


async def test_a_damaged_time_to_live_expires_nothing(box: SqliteOutbox) -> None:
    """Neither in the row nor in the index alone; a scrub counts it as damage."""
    await box.append([entry(number, REST, ttl=1000) for number in range(5)], now=0)
    await run(box, "UPDATE runs SET expires = 1.0")
    assert await box.sweep(now=5, entire=True) == 0
    assert await box.sweep(now=5, entire=False) == 0
    await box.scrubber.scrub()
    status = await status_of(box, now=5)
    assert (status.expired, status.damaged) == (0, 5)


async def test_a_limit_full_of_damage_does_not_look_like_the_end(box: SqliteOutbox) -> None:
    """A short result means that there are no more messages, so damage must not shorten it."""
    await box.append([entry(number, REST) for number in range(50)], now=0)
    await run(box, "UPDATE references_ SET start = start + 1 WHERE offset < 20")
    assert [message.id for message in await fetched(box, most=10)] == [f"m{number}" for number in range(20, 30)]
    assert (await status_of(box)).damaged == 20


async def test_without_room_to_note_it_the_sound_go_on(box: SqliteOutbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk damaged messages are skipped, and counted once there is space."""
    await box.append([entry(number, REST) for number in range(50)], now=0)
    await run(box, "UPDATE references_ SET start = start + 1 WHERE offset IN (0, 1, 2, 3, 4, 7)")

    def full(*_: Any, **__: Any) -> None:
        raise StoreFull("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(damage, "set_aside", full)
        ids = [message.id for message in await fetched(box, most=5)]
        assert ids == ["m5", "m6", "m8", "m9", "m10"]
        assert len(await fetched(box)) == 44
    assert len(await fetched(box)) == 46
    assert (await status_of(box)).damaged == 6


async def test_brokered_messages_are_reported_as_a_dead_letter(box: SqliteOutbox) -> None:
    await box.append([entry(1, MODULE), entry(2, MODULE)], now=0)
    await run(box, "UPDATE references_ SET start = start + 1 WHERE offset = 0")
    assert [message.id for message in await fetched(box, MODULE)] == ["m2"]
    [letter] = await box.dead_letters()
    assert (letter.code, letter.queue) == ("damaged", MODULE)
    assert envelope.read(letter.content).source == "/fairlead/gaps"
    assert (await status_of(box, MODULE)).damaged == 1


async def test_a_damaged_dead_letter_becomes_one_that_says_so(box: SqliteOutbox) -> None:
    await box.append([entry(1, REST), entry(2, REST)], now=0)
    await box.settle(REST, refused=[Refusal(0, "no", "why"), Refusal(1, "no", "why")], checkpoint=1, at=AT)
    await run(box, "UPDATE dead_letters SET content = CAST(replace(content, 'm1', 'm7') AS BLOB) WHERE number = 1")
    letters = await box.dead_letters()
    assert [(letter.number, letter.code) for letter in letters] == [(2, "no"), (3, "damaged")]
    status = await status_of(box)
    assert (status.accepted, status.dead_lettered, status.damaged) == (3, 2, 1)
    assert await box.replay(None, now=0) == 2
    assert {message.id for message in await fetched(box)} >= {"m2"}


async def test_what_is_refused_and_damaged_counts_as_damaged(box: SqliteOutbox) -> None:
    await box.append([entry(1, REST), entry(2, REST)], now=0)
    await run(box, "UPDATE references_ SET start = start + 1 WHERE offset = 0")
    await box.settle(REST, refused=[Refusal(0, "no", "why"), Refusal(1, "no", "why")], checkpoint=-1, at=AT)
    status = await status_of(box)
    assert (status.damaged, status.dead_lettered, status.length) == (1, 1, 1)


async def test_a_damaged_key_does_not_double_its_request(box: SqliteOutbox) -> None:
    """The key is known to have been used; its answer is lost, so the present one is given."""
    idempotency = IdempotencyKey("k", b"d", b"first")
    await box.append([entry(1, REST)], now=0, idempotency=idempotency)
    await run(box, "UPDATE receipts SET answer = x'00', digest = x'00'")
    assert await box.append([entry(1, REST)], now=0, idempotency=IdempotencyKey("k", b"d", b"second")) == b"second"
    assert (await status_of(box)).accepted == 1


# ---- everything that is held is looked at, soon after damage was met -------------------------------------------------


ALARMS, READINGS = QueueId("iothub", 0), QueueId("iothub", 5)


async def test_damage_that_is_met_brings_a_look_at_the_other_queues(tmp_path: Path) -> None:
    """A reader finds one damaged message, and the scrub the other."""
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
