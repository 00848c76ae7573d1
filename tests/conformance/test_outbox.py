"""One suite for every outbox, in memory or on disk: the promises of the port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairlead_edge.errors import KeyReused, StoreFull
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.memory_outbox import MemoryOutbox
from fairlead_edge.outbox.outbox import Entry, IdempotencyKey, Outbox, QueueCounts, Reference, Refusal, RefusedMessage
from fairlead_edge.outbox.queues import NOTHING_DONE, Attempt, QueueId, live_lane

ALARMS, REST = QueueId("iothub", 0), QueueId("iothub")
MODULE = QueueId("edge-1/m/in", 3)
REFUSED = QueueId("edge-1/$mqtt/refused")
AT = "2026-11-20T12:00:00.000Z"


@pytest.fixture(params=["memory", "sqlite"])
async def box(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Outbox]:
    if request.param == "memory":
        yield MemoryOutbox(epoch=41, max_bytes=100_000)
    else:
        opened = SqliteOutbox(tmp_path / "outbox.db", epoch=41, max_bytes=100_000)
        yield opened
        await opened.close()


def entry(name: str, *queues: QueueId, ttl: float | None = None, size: int = 0) -> Entry:
    content = name.encode().ljust(size, b".")
    return Entry(name, content, tuple(Reference(queue, ttl, f"default/{queue.priority}") for queue in queues))


async def fetch(
    box: Outbox, queue: QueueId, *, after: int = NOTHING_DONE, now: float = 0.0, most: int = 100
) -> list[int]:
    items = await box.fetch(queue, after=after, now=now, messages_max=most, bytes_max=1 << 20)
    return [item.offset for item in items]


async def queue_status(box: Outbox, queue: QueueId, now: float = 0.0) -> QueueCounts:
    status = await box.status(now=now)
    return next(each for each in status.queues if each.queue == str(queue))


def balanced(status: QueueCounts) -> bool:
    return status.accepted == (status.sent + status.expired + status.evicted + status.dead_lettered + status.length)


async def test_references_come_back_in_order_with_what_their_route_said(box: Outbox) -> None:
    """The reference has offset, epoch, topic, and times of acceptance and expiry; the body is unchanged."""
    await box.append([entry("a", ALARMS, REST, ttl=60), entry("b", ALARMS)], now=5)
    [first, second] = await box.fetch(ALARMS, after=NOTHING_DONE, now=5, messages_max=10, bytes_max=1000)
    assert first == outbox.Item(0, 41, "default/0", 5, 65, b"a")
    assert second == outbox.Item(1, 41, "default/0", 5, None, b"b")
    assert await fetch(box, REST) == [0]


async def test_fetch_ends_with_the_message_that_reaches_a_limit(box: Outbox) -> None:
    """A result that reaches neither limit was everything."""
    await box.append([entry(str(number), REST, size=100) for number in range(5)], now=0)
    assert await fetch(box, REST, most=3) == [0, 1, 2]
    items = await box.fetch(REST, after=1, now=0, messages_max=100, bytes_max=150)
    assert [item.offset for item in items] == [2, 3]
    items = await box.fetch(REST, after=1, now=0, messages_max=100, bytes_max=1)
    assert [item.offset for item in items] == [2]


async def test_unknown_queue_is_empty(box: Outbox) -> None:

    assert await fetch(box, ALARMS) == []
    assert await box.checkpoint(ALARMS) == NOTHING_DONE
    await box.settle(ALARMS, sent=[1], checkpoint=1, at=AT)
    assert await box.queues() == []


async def test_queues_are_listed_most_urgent_first(box: Outbox) -> None:
    """Queues are found even if no route names them any more."""
    await box.append([entry("a", REST, MODULE, ALARMS)], now=0)
    assert await box.queues() == [MODULE, ALARMS, REST]


async def test_expired_references_are_skipped_and_counted_at_once(box: Outbox) -> None:
    """From the second its time to live ends, a message is not fetched and counts as expired, before any sweep."""
    await box.append([entry("a", REST, ttl=10), entry("b", REST)], now=0)
    assert await fetch(box, REST, now=9.9) == [0, 1]
    assert await fetch(box, REST, now=10) == [1]
    status = await queue_status(box, REST, now=10)
    assert (status.length, status.expired, status.oldest_age_seconds) == (1, 1, 10)
    assert balanced(status)


def inheriting(name: str, origin: str, ttl: float | None) -> Entry:
    return Entry(name, name.encode(), (Reference(REST, ttl, "default/all", origin),))


async def test_what_inherits_lives_as_long_as_its_object_says_at_any_moment(box: Outbox) -> None:
    """Shorter, longer or forever; other messages have their own time to live, or another object's."""
    await box.append([inheriting("a", "plant", 60), inheriting("b", "shop", 60), entry("c", REST, ttl=60)], now=0)
    await box.append([inheriting("d", "plant", 60)], now=30)
    await box.inherit({"plant": 20, "shop": 60}, now=35)
    assert await fetch(box, REST, now=36) == [1, 2, 3]
    status = await queue_status(box, REST, now=36)
    assert (status.length, status.expired) == (3, 1) and balanced(status)
    await box.inherit({"plant": None, "shop": 100}, now=40)
    assert await fetch(box, REST, now=99) == [1, 3]
    await box.inherit({"plant": 100}, now=50)
    [last] = await box.fetch(REST, after=NOTHING_DONE, now=129, messages_max=9, bytes_max=100)
    assert (last.offset, last.expires) == (3, 130)
    assert await fetch(box, REST, now=130) == []
    while await box.sweep(now=130, entire=True):
        pass
    status = await queue_status(box, REST, now=130)
    assert (status.length, status.expired) == (0, 4) and balanced(status)


async def test_what_has_expired_does_not_come_back(box: Outbox) -> None:
    """Its counter would decrease, even if it was not swept yet."""
    await box.append([inheriting("a", "plant", 60)], now=0)
    await box.inherit({"plant": 600}, now=60)
    assert await fetch(box, REST, now=60) == []
    assert (await queue_status(box, REST, now=60)).expired == 1


async def test_what_was_routed_before_a_change_and_stored_after_it_follows_it(box: Outbox) -> None:
    """The object changes between routing and storing."""
    await box.inherit({"plant": 10}, now=0)
    await box.append([inheriting("a", "plant", 60)], now=0)
    assert await fetch(box, REST, now=9) == [0] and await fetch(box, REST, now=10) == []


async def test_settled_references_are_gone_and_counted_once(box: Outbox) -> None:
    """A repeated settlement counts nothing again."""
    await box.append([entry(str(number), REST) for number in range(3)], now=0)
    for _ in range(2):
        await box.settle(REST, sent=[0, 1], checkpoint=1, at=AT)
    status = await queue_status(box, REST)
    assert (status.sent, status.length, status.checkpoint) == (2, 1, 1)
    assert await fetch(box, REST) == [2]


async def test_what_the_checkpoint_passed_unsent_had_expired(box: Outbox) -> None:
    """It is not fetched again, counts as expired, and its space is freed."""
    await box.append([entry("a", REST, ttl=1), entry("b", REST)], now=0)
    await box.settle(REST, sent=[1], checkpoint=1, at=AT)
    status = await queue_status(box, REST, now=0)  # the clock may have gone back ten seconds over a reboot
    assert (status.length, status.expired, status.sent) == (0, 1, 1)
    assert await box.sweep(now=0, entire=False) == 1
    assert balanced(await queue_status(box, REST))


async def test_checkpoint_never_falls(box: Outbox) -> None:

    await box.append([entry(str(number), REST) for number in range(3)], now=0)
    await box.settle(REST, sent=[1], checkpoint=1, at=AT)
    await box.settle(REST, sent=[0], checkpoint=0, at=AT)
    assert await box.checkpoint(REST) == 1


async def test_offsets_are_never_used_again(box: Outbox) -> None:
    """Not even when the last message expired or was sent."""
    await box.append([entry("a", REST, ttl=1)], now=0)
    await box.sweep(now=5, entire=True)
    await box.append([entry("b", REST)], now=5)
    assert await fetch(box, REST, now=5) == [1]
    await box.settle(REST, sent=[1], checkpoint=1, at=AT)
    await box.append([entry("c", REST)], now=5)
    assert await fetch(box, REST, now=5) == [2]


async def test_refused_messages_become_dead_letters_with_their_reason(box: Outbox) -> None:
    """Nothing is dropped: a dead letter has a code, a reason and the whole message."""
    await box.append([entry("a", ALARMS, ttl=60), entry("b", ALARMS)], now=0)
    await box.settle(ALARMS, sent=[1], refused=[Refusal(0, "denied", "not granted")], checkpoint=1, at=AT)
    [letter] = await box.dead_letters()
    assert (letter.queue, letter.offset, letter.code, letter.reason) == (ALARMS, 0, "denied", "not granted")
    assert (letter.content, letter.topic, letter.ttl_seconds, letter.at) == (b"a", "default/0", 60, AT)
    status = await queue_status(box, ALARMS)
    assert (status.dead_lettered, status.sent, status.length) == (1, 1, 0)
    assert balanced(status)


async def test_a_message_refused_before_it_was_in_a_queue_is_a_dead_letter_at_once(box: Outbox) -> None:
    """It never appears in its queue unless it is replayed; without space, nothing is stored."""
    queue = QueueId("edge-1/$mqtt/refused")
    await box.append([entry("before", queue)], now=0.0)
    refused = [RefusedMessage(entry(name, queue), "bad_source", f"why {name}") for name in ("a", "b")]
    await box.refuse(refused, now=1.0, at="now")
    assert await fetch(box, queue) == [0]
    letters = await box.dead_letters()
    assert [(each.offset, each.code, each.reason, each.at) for each in letters] == [
        (1, "bad_source", "why a", "now"),
        (2, "bad_source", "why b", "now"),
    ]
    status = await queue_status(box, queue)
    assert (status.length, status.accepted, status.dead_lettered) == (1, 3, 2)
    assert balanced(status)
    assert await box.replay(None, now=2.0) == 2
    assert len(await fetch(box, queue, now=2.0)) == 3
    with pytest.raises(StoreFull):
        await box.refuse([RefusedMessage(entry("large", queue, size=1 << 20), "c", "r")], now=3.0, at="now")
    assert len(await box.dead_letters()) == 0


async def test_dead_letters_are_read_in_pages_and_replayed(box: Outbox) -> None:
    """By number or all; they get new offsets and their full time to live, and the totals add up."""
    await box.append([entry(name, ALARMS, ttl=60) for name in "abc"], now=0)
    refusals = [Refusal(offset, "denied", "no") for offset in range(3)]
    await box.settle(ALARMS, refused=refusals, checkpoint=2, at=AT)
    first = await box.dead_letters(limit=2)
    rest = await box.dead_letters(after=first[-1].number, limit=2)
    assert [letter.content for letter in (*first, *rest)] == [b"a", b"b", b"c"]
    assert await box.replay([rest[0].number, 999], now=100) == 1
    assert await box.replay(None, now=100) == 2
    items = await box.fetch(ALARMS, after=2, now=100, messages_max=10, bytes_max=1000)
    assert [(item.offset, item.content, item.expires) for item in items] == [
        (3, b"c", 160),
        (4, b"a", 160),
        (5, b"b", 160),
    ]
    status = await queue_status(box, ALARMS, now=100)
    assert (status.accepted, status.length, status.dead_lettered) == (3, 3, 0)
    assert balanced(status)
    assert await box.replay(None, now=100) == 0


async def test_body_is_stored_once_however_many_queues(box: Outbox) -> None:
    """The size of the store shows it; the body is removed with the last reference."""
    await box.append([entry("a", ALARMS, REST, MODULE, size=1000)], now=0)
    assert (await box.status(now=0)).bytes == 1000 + 3 * outbox.REFERENCE_BYTES
    await box.settle(ALARMS, sent=[0], checkpoint=0, at=AT)
    await box.settle(REST, sent=[0], checkpoint=0, at=AT)
    assert (await box.status(now=0)).bytes == 1000 + outbox.REFERENCE_BYTES
    assert await fetch(box, MODULE) == [0]
    await box.settle(MODULE, sent=[0], checkpoint=0, at=AT)
    assert (await box.status(now=0)).bytes == 0


async def test_body_shared_by_queues_expires_for_each(box: Outbox) -> None:
    """One sweep may remove several references of one body."""
    await box.append([entry("a", ALARMS, REST, ttl=5, size=1000)], now=0)
    assert await box.sweep(now=5, entire=True) == 2
    status = await box.status(now=5)
    assert status.bytes == 0
    assert [each.expired for each in status.queues] == [1, 1]


async def test_bodies_of_one_request_with_other_fates_lie_apart(box: Outbox) -> None:
    """A body that lives longer must not keep the space of those that are gone."""
    await box.append(
        [entry("a", ALARMS, size=500), entry("b", REST, size=500), entry("c", ALARMS, ttl=9, size=500)], now=0
    )
    await box.settle(ALARMS, sent=[0], checkpoint=0, at=AT)
    assert (await box.status(now=0)).bytes == 1000 + 2 * outbox.REFERENCE_BYTES
    items = await box.fetch(ALARMS, after=0, now=0, messages_max=9, bytes_max=9999)
    assert [item.content[:1] for item in items] == [b"c"]


async def test_segments_are_bounded(box: Outbox) -> None:
    """A large request is stored in parts, in order."""
    entries = [entry(str(number), REST, size=20_000) for number in range(4)]
    assert outbox.segments(entries) == [[0, 1, 2, 3]]
    assert outbox.segments([entry("x", REST, size=outbox.SEGMENT_BYTES_MAX), *entries]) == [[0], [1, 2, 3, 4]]
    await box.append(entries, now=0)
    items = await box.fetch(REST, after=NOTHING_DONE, now=0, messages_max=9, bytes_max=10**9)
    assert [item.content for item in items] == [each.content for each in entries]


def refused_input(*names: str, size: int = 900) -> list[RefusedMessage]:
    return [RefusedMessage(entry(name, REFUSED, size=size), "bad_topic", f"why {name}") for name in names]


async def letters_of(box: Outbox) -> list[bytes]:
    return [letter.content.rstrip(b".") for letter in await box.dead_letters(limit=1000)]


@pytest.mark.slow
async def test_refused_input_keeps_to_its_share_and_the_oldest_goes(box: Outbox) -> None:
    """5 % of 100,000 bytes hold 5 of them; the others count as evicted, and accepted messages have the rest."""
    for number in range(200):
        await box.refuse(refused_input(str(number)), now=float(number), at=AT)
    assert await letters_of(box) == [b"195", b"196", b"197", b"198", b"199"]
    status = await box.status(now=200)
    assert status.bytes == status.refused_bytes == 5 * outbox.letter_cost(900) <= status.refused_bytes_max == 5000
    assert (status.refused_letters, status.dead_letters) == (5, 5)
    of_it = await queue_status(box, REFUSED)
    assert (of_it.accepted, of_it.evicted, of_it.dead_lettered) == (200, 195, 5) and balanced(of_it)


async def test_refused_input_that_is_larger_than_its_share_is_counted_and_not_kept(box: Outbox) -> None:
    """And it does not block the next one."""
    await box.refuse(refused_input("large", size=6000), now=0, at=AT)
    assert await letters_of(box) == []
    await box.refuse(refused_input("small"), now=0, at=AT)
    assert await letters_of(box) == [b"small"]
    assert balanced(await queue_status(box, REFUSED))


async def test_there_are_never_more_than_so_many_of_refused_input(box: Outbox) -> None:
    """However small they are, because each refusal reads all of them."""
    names = [str(number) for number in range(outbox.REFUSED_LETTERS_MAX + 7)]
    box.refused_bytes_max = 90_000
    for first in range(0, len(names), 100):
        await box.refuse(refused_input(*names[first : first + 100], size=0), now=0, at=AT)
    assert [name.encode() for name in names[7:]] == await letters_of(box)


async def test_refused_input_makes_room_before_an_accepted_message_is_refused(box: Outbox) -> None:
    """The oldest first, and no more than needed; dead letters of accepted messages stay."""
    await box.append([entry("failed", ALARMS)], now=0)
    await box.settle(ALARMS, refused=[Refusal(0, "denied", "not granted")], checkpoint=0, at=AT)
    await box.refuse(refused_input(*"abcde"), now=0, at=AT)
    used = (await box.status(now=0)).bytes
    await box.append([entry("rest", REST, size=100_000 - used - 64)], now=0)
    await box.append([entry("alarm", ALARMS, size=1000)], now=0)
    assert await letters_of(box) == [b"failed", b"c", b"d", b"e"]
    await box.append([entry("alarm", ALARMS, size=2000)], now=0)
    before = await box.status(now=0)
    with pytest.raises(StoreFull):
        await box.append([entry("too much", ALARMS, size=5000)], now=0)
    assert await box.status(now=0) == before, "all or nothing"
    assert await letters_of(box) == [b"failed", b"e"]
    await box.append([entry("alarm", ALARMS, size=1600)], now=0)
    assert await letters_of(box) == [b"failed"]
    with pytest.raises(StoreFull):  # a dead letter of what was accepted is not evicted
        await box.append([entry("alarm", ALARMS, size=1600)], now=0)
    assert await letters_of(box) == [b"failed"]
    assert all(balanced(queue) for queue in before.queues)


async def test_refused_input_expires_by_its_age(box: Outbox) -> None:
    """After a week on the store's clock, whatever the wall clock says; dead letters of accepted messages stay."""
    await box.append([entry("failed", ALARMS)], now=0)
    await box.settle(ALARMS, refused=[Refusal(0, "denied", "no")], checkpoint=0, at="1970-01-01T00:00:00.000Z")
    day, week = 86_400.0, outbox.RefusedInputPolicy().seconds
    for number in (1, 2, 3):
        await box.refuse(refused_input(str(number)), now=number * day, at="1970-01-01T00:00:00.000Z")
    assert await box.sweep(now=week + day - 1, entire=False) == 0
    assert await box.sweep(now=week + 2 * day, entire=False) == 2
    assert await letters_of(box) == [b"failed", b"3"]
    status = await queue_status(box, REFUSED, week)
    assert (status.expired, status.dead_lettered) == (2, 1) and balanced(status)
    assert await box.sweep(now=100 * week, entire=True) == 1
    assert await letters_of(box) == [b"failed"]


async def test_discarded_letters_are_gone_and_counted(box: Outbox) -> None:
    """From every queue; unknown numbers are ignored, and the space is freed."""
    await box.append([entry(name, ALARMS) for name in "ab"], now=0)
    refusals = [Refusal(offset, "denied", "not granted") for offset in range(2)]
    await box.settle(ALARMS, refused=refusals, checkpoint=1, at=AT)
    await box.refuse(refused_input("c"), now=0, at=AT)
    assert await box.discard([1, 3, 99, 1]) == 2
    assert await letters_of(box) == [b"b"]
    status = await box.status(now=0)
    assert status.bytes == outbox.letter_cost(1) and all(balanced(queue) for queue in status.queues)
    assert await box.discard([1, 3]) == 0


async def test_what_is_routed_again_is_in_its_new_queue_or_nowhere_and_the_books_balance(box: Outbox) -> None:
    """In one step; messages that no longer exist are not stored."""
    held = QueueId("edge-1/$routes/held", 1)
    await box.append([entry(name, held) for name in "abc"], now=0)
    await box.settle(held, sent=[1], checkpoint=NOTHING_DONE, at=AT)
    routed = [(0, entry("a", ALARMS, REST)), (1, entry("b", ALARMS)), (2, None), (9, entry("z", ALARMS))]
    assert await box.route_again(held, routed, now=5) == 2
    assert await box.route_again(held, routed, now=5) == 0
    assert await fetch(box, held) == []
    [first] = await box.fetch(ALARMS, after=NOTHING_DONE, now=5, messages_max=9, bytes_max=1000)
    assert (first.content, first.offset, first.enqueued) == (b"a", 0, 5)
    assert await fetch(box, REST) == [0]
    status = await box.status(now=5)
    assert all(balanced(queue) for queue in status.queues)
    assert status.bytes == 1 + 2 * outbox.REFERENCE_BYTES
    assert await box.route_again(QueueId("edge-1/$routes/held", 7), routed, now=5) == 0


async def test_what_does_not_fit_is_not_routed_again(box: Outbox) -> None:
    """It stays where it is."""
    held = QueueId("edge-1/$routes/held", 1)
    await box.append([entry("a", held, size=90_000)], now=0)
    with pytest.raises(StoreFull):
        await box.route_again(held, [(0, entry("a", *(QueueId("iothub", n) for n in range(200)), size=90_000))], now=0)
    assert await fetch(box, held) == [0]
    assert (await box.status(now=0)).bytes == 90_000 + outbox.REFERENCE_BYTES


async def test_full_store_refuses_all_or_nothing(box: Outbox) -> None:
    """Over the limit nothing of the request is stored, and existing messages stay."""
    await box.append([entry("a", REST, size=50_000)], now=0)
    with pytest.raises(StoreFull) as refused:
        await box.append([entry("b", REST), entry("c", REST, size=60_000)], now=0)
    assert refused.value.retry_after_seconds
    status = await box.status(now=0)
    assert (status.queues[0].length, status.queues[0].accepted) == (1, 1)
    assert status.bytes == 50_000 + outbox.REFERENCE_BYTES
    await box.append([entry("d", REST)], now=0)
    assert await fetch(box, REST) == [0, 1]


async def test_least_urgent_and_oldest_make_room(box: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count as evicted; messages at least as urgent as the new one are spared."""
    monkeypatch.setattr(outbox, "EVICT_ROWS", 2)
    for queue in (REST, REST, REST, REST, MODULE, MODULE, ALARMS, ALARMS):
        await box.append([entry("x", queue, size=9000)], now=0)
    await box.append([entry("a", ALARMS, size=9000) for _ in range(4)], now=0, evict=True)
    assert (await queue_status(box, REST)).evicted == 2
    assert await fetch(box, REST) == [2, 3]
    await box.append([entry("a", ALARMS, size=9000) for _ in range(4)], now=0, evict=True)
    status = {queue.queue: (queue.length, queue.evicted) for queue in (await box.status(now=0)).queues}
    assert status == {"edge-1/m/in_Pri3": (0, 2), "iothub_Pri0": (10, 0), "iothub": (0, 4)}
    assert all(balanced(queue) for queue in (await box.status(now=0)).queues)


async def test_nothing_is_evicted_in_vain(box: Outbox) -> None:
    """A request that would not fit even after evictions is refused, and nothing changes."""
    await box.append([entry("x", REST, size=45_000), entry("y", ALARMS, size=45_000)], now=0)
    with pytest.raises(StoreFull):
        await box.append([entry("z", MODULE, size=90_000)], now=0, evict=True)
    with pytest.raises(StoreFull):
        await box.append([entry("z", REST, size=45_000)], now=0, evict=True)
    assert await fetch(box, REST) == [0] and await fetch(box, ALARMS) == [0]
    assert [queue.evicted for queue in (await box.status(now=0)).queues] == [0, 0]


async def test_evicted_while_it_was_on_its_way_counts_once(box: Outbox) -> None:
    """The hub may have it as well, but it counts as evicted."""
    await box.append([entry("x", REST, size=90_000)], now=0)
    await box.append([entry("a", ALARMS, size=90_000)], now=0, evict=True)
    await box.settle(REST, sent=[0], checkpoint=0, at=AT)
    status = await queue_status(box, REST)
    assert (status.evicted, status.sent) == (1, 0)
    assert balanced(status)


async def test_sweep_from_the_heads_stops_at_the_first_live_one(box: Outbox) -> None:
    """An expired message behind a live one keeps its space, although it counts as expired."""
    await box.append([entry("a", REST, ttl=1), entry("b", REST), entry("c", REST, ttl=1)], now=0)
    assert await box.sweep(now=2, entire=False) == 1
    assert await box.sweep(now=2, entire=False) == 0
    status = await queue_status(box, REST, now=2)
    assert (status.length, status.expired) == (1, 2)
    # a and c came together and will go together: the room of their bodies is given back with the last of them.
    assert (await box.status(now=2)).bytes == 3 + 2 * outbox.REFERENCE_BYTES


async def test_sweep_of_the_entire_queue_finds_all(box: Outbox) -> None:
    """In steps of bounded size."""
    await box.append([entry("keep", REST)], now=0)
    await box.append([entry("x", REST, ttl=1) for _ in range(outbox.SWEEP_ROWS + 1)], now=0)
    assert await box.sweep(now=2, entire=True) == outbox.SWEEP_ROWS
    assert await box.sweep(now=2, entire=True) == 1
    assert await box.sweep(now=2, entire=True) == 0
    status = await queue_status(box, REST, now=2)
    assert (status.length, status.expired) == (1, outbox.SWEEP_ROWS + 1)
    assert balanced(status)


async def test_idempotency_key_is_remembered_for_a_day(box: Outbox) -> None:
    """A repeated request gets the first answer and stores nothing; another request with the key is refused."""
    idempotency = IdempotencyKey("k", b"digest", b"first")
    assert await box.append([entry("a", REST)], now=0, idempotency=idempotency) is None
    assert (
        await box.append([entry("a", REST)], now=1, idempotency=IdempotencyKey("k", b"digest", b"second")) == b"first"
    )
    with pytest.raises(KeyReused):
        await box.append([entry("b", REST)], now=1, idempotency=IdempotencyKey("k", b"other", b""))
    assert await fetch(box, REST) == [0]
    await box.sweep(now=outbox.IDEMPOTENCY_SECONDS + 1, entire=False)
    assert await box.append([], now=outbox.IDEMPOTENCY_SECONDS + 1, idempotency=idempotency) is None


async def test_refused_request_leaves_its_key_free(box: Outbox) -> None:
    """A store that was full must not answer the retry with success."""
    idempotency = IdempotencyKey("k", b"digest", b"answer")
    with pytest.raises(StoreFull):
        await box.append([entry("a", REST, size=200_000)], now=0, idempotency=idempotency)
    assert await box.append([entry("a", REST)], now=0, idempotency=idempotency) is None


async def test_what_is_in_flight_is_decided_by_its_answer_alone(box: Outbox) -> None:
    """If it expires in flight it is neither swept nor counted as expired, and then counts as sent."""
    await box.append([entry(str(number), ALARMS, ttl=10) for number in range(4)], now=0)
    items = await box.fetch(ALARMS, after=NOTHING_DONE, now=5, messages_max=3, bytes_max=1000, leaving=True)
    box.in_flight.release(ALARMS, [items[2].offset])
    for entire in (True, False):
        while await box.sweep(now=20, entire=entire):
            pass
    status = await queue_status(box, ALARMS, now=20)
    assert (status.length, status.expired, status.sent) == (2, 2, 0) and balanced(status)
    await box.settle(ALARMS, sent=[0, 1], checkpoint=1, at=AT)
    status = await queue_status(box, ALARMS, now=20)
    assert (status.length, status.expired, status.sent, status.in_doubt) == (0, 2, 2, 0) and balanced(status)


async def test_what_is_in_flight_is_not_evicted(box: Outbox) -> None:
    """Others of its queue are evicted instead; without others the store is full."""
    for number in range(10):
        await box.append([entry(str(number), REST, size=9000)], now=0)
    items = await box.fetch(REST, after=NOTHING_DONE, now=0, messages_max=6, bytes_max=1 << 20, leaving=True)
    assert len(items) == 6
    await box.append([entry("a", ALARMS, size=9000) for _ in range(3)], now=0, evict=True)
    assert await fetch(box, REST) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(StoreFull):
        await box.append([entry("a", ALARMS, size=30_000)], now=0, evict=True)
    again = await box.fetch(REST, after=NOTHING_DONE, now=0, messages_max=6, bytes_max=1 << 20, leaving=True)
    assert [item.offset for item in again] == [0, 1, 2, 3, 4, 5]
    await box.settle(REST, sent=range(6), checkpoint=5, at=AT)
    status = await queue_status(box, REST)
    assert (status.sent, status.evicted, status.length) == (6, 4, 0) and balanced(status)


async def test_what_came_back_without_an_answer_and_is_gone_then_is_in_doubt(box: Outbox) -> None:
    """It may be in its topic and counts as expired; the status says how many there are."""
    await box.append([entry(str(number), ALARMS, ttl=10) for number in range(3)], now=0)
    await box.fetch(ALARMS, after=NOTHING_DONE, now=5, messages_max=2, bytes_max=1000, leaving=True)
    box.in_flight.release(ALARMS, [0, 1], in_doubt=True)
    await box.settle(ALARMS, sent=[0], checkpoint=0, at=AT)
    while await box.sweep(now=20, entire=True):
        pass
    status = await queue_status(box, ALARMS, now=20)
    assert (status.sent, status.expired, status.in_doubt) == (1, 2, 1) and balanced(status)


async def test_listed_messages_are_fetched_alone(box: Outbox) -> None:
    """Only live ones, in order."""
    await box.append([entry("a", MODULE), entry("b", MODULE, ttl=5), entry("c", MODULE), entry("d", MODULE)], now=0)
    await box.settle(MODULE, sent=[2], checkpoint=NOTHING_DONE, at=AT)
    items = await box.fetch(
        MODULE, after=NOTHING_DONE, now=5, messages_max=9, bytes_max=1000, leaving=True, only=[3, 2, 1, 0]
    )
    assert [item.offset for item in items] == [0, 3]
    assert box.in_flight.of(MODULE) == {0, 3}


async def test_attempts_lie_with_their_messages(box: Outbox) -> None:
    """The latest attempt of each message; deleted with it."""
    await box.append([entry(name, MODULE, ttl=60 if name == "c" else None) for name in "abcd"], now=0)
    attempts = [Attempt(offset=offset, id=f"id-{offset}", number=1, leased=True, until=60.0) for offset in range(5)]
    await box.note_attempts(MODULE, attempts)
    again = Attempt(offset=1, id="id-1", number=2, leased=False, until=9.5, delay_seconds=1.5, waited_seconds=2.5)
    await box.note_attempts(MODULE, [again])
    await box.note_attempts(REST, attempts)
    assert await box.attempts() == {MODULE: [attempts[0], again, attempts[2], attempts[3]]}
    await box.settle(MODULE, sent=[0], refused=[Refusal(3, "code", "why")], checkpoint=0, at=AT)
    assert await box.sweep(now=60, entire=True) == 1
    assert await box.attempts() == {MODULE: [again]}


async def test_a_live_lane_is_as_urgent_as_its_priority(box: Outbox) -> None:
    """Although its number is large, less urgent messages are evicted, and not the lane of alarms."""
    lane = QueueId(ALARMS.endpoint, live_lane(ALARMS.priority))
    await box.append([entry("l", lane, size=9000) for _ in range(4)], now=0)
    await box.append([entry("r", REST, size=9000) for _ in range(6)], now=0)
    await box.append([entry("a", ALARMS, size=9000) for _ in range(4)], now=0, evict=True)
    found = {queue.queue: queue.evicted for queue in (await box.status(now=0)).queues}
    assert found[str(lane)] == 0 and found[str(REST)] > 0
