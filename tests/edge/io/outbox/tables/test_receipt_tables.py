"""Receipts in the tables: found while a message waits, after it left, and not beyond the ring."""

from __future__ import annotations

import apsw
import pytest
from tests.support.edges.departed import ALARMS, REST, entry, id_of, page, ways
from tests.support.edges.outbox_tables import append, count, settle, tables

from fairlead_edge.io.outbox.tables import append as append_job
from fairlead_edge.io.outbox.tables import expiry, receipt_tables
from fairlead_edge.io.outbox.tables.append import Eviction, evict
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.outbox import Entry, Reference, Refusal
from fairlead_edge.outbox.queues import InFlight
from fairlead_edge.outbox.receipts import marks
from fairlead_edge.outbox.receipts.departure import NAMES_BYTES, PAGE_BYTES
from fairlead_edge.outbox.receipts.receipt import DeadLettered, LeftQueue, ReadingTable, TopicReach, Waiting


@pytest.fixture
def connection() -> apsw.Connection:
    return tables()


def leave(connection: apsw.Connection, *offsets: int) -> None:
    """These were acknowledged together."""
    settle(connection, REST, *offsets, departures=[page(*offsets)])


def test_what_expired_or_was_evicted_is_remembered(connection: apsw.Connection) -> None:
    append(connection, entry(0, author=b"auth"), entry(1, Reference(REST, None, "n/t")))
    assert expiry.sweep(connection, now=61.0, entire=True, in_flight=InFlight()).messages
    [way] = ways(connection, 0)
    assert isinstance(way, LeftQueue)
    assert (way.departure.outcome, way.departure.left_at, way.author) == ("expired", 61.0, b"auth")
    assert evict(connection, 0, 1, Eviction(InFlight(), [], 70.0))
    [way] = ways(connection, 1)
    assert isinstance(way, LeftQueue) and (way.departure.outcome, way.departure.left_at) == ("evicted", 70.0)


def test_the_ring_forgets_the_oldest_with_their_names(
    connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipt_tables, "RING_BYTES_MAX", 3 * (PAGE_BYTES + NAMES_BYTES + marks.ID_BYTES))
    monkeypatch.setattr(receipt_tables, "RING_PARTS", PAGE_BYTES)
    for number in range(6):
        append(connection, entry(number))
        leave(connection, number)
    assert (count(connection, "departed"), count(connection, "names")) == (3, 3), "the oldest ends within the ring"
    assert [bool(ways(connection, number)) for number in range(6)] == [False, False, False, True, True, True]
    assert receipt_tables.oldest_departure(connection) == 2.0
    append(connection, *(entry(number) for number in range(10, 200)))
    leave(connection, *range(6, 196))
    assert count(connection, "departed") == count(connection, "names") == 1, "one larger than the ring is kept alone"
    assert ways(connection, 10) and not ways(connection, 5)


def test_names_stay_as_long_as_one_of_them_waits_or_is_remembered(
    connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request whose messages leave in parts, some refused, some without a receipt."""
    monkeypatch.setattr(receipt_tables, "RING_BYTES_MAX", PAGE_BYTES)
    monkeypatch.setattr(receipt_tables, "RING_PARTS", PAGE_BYTES)
    append(connection, *(entry(number) for number in range(4)))
    leave(connection, 0)
    leave(connection, 1)
    assert [len(ways(connection, number)) for number in range(4)] == [0, 1, 1, 1]
    settle(connection, REST, 2)
    settle(connection, REST, refused=(Refusal(3, "bad_body", "why"),))
    assert count(connection, "names") == 1, "one of them is remembered"
    assert [len(ways(connection, number)) for number in range(4)] == [0, 1, 0, 1]
    append(connection, entry(5))
    leave(connection, 4)
    assert count(connection, "names") == 1 and not ways(connection, 1) and ways(connection, 5)


def test_what_leaves_without_a_receipt_takes_its_names_along(connection: apsw.Connection) -> None:
    """As messages for modules do, which receipts do not remember."""
    append(connection, *(entry(number) for number in range(3)))
    settle(connection, REST, 0, 2)
    assert count(connection, "names") == 1
    settle(connection, REST, 1)
    assert count(connection, "names") == 0


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_a_number_that_the_disk_changed_keeps_nothing_from_leaving(connection: apsw.Connection, number: int) -> None:
    """No higher number is left, so departures are forgotten, but messages still leave."""
    append(connection, *(entry(number) for number in range(5)))
    leave(connection, 1)
    rows(connection, f"UPDATE departed SET number = {number}")
    settle(connection, REST, 2, 3, departures=[page(2), page(3)])
    assert all(ways(connection, each) for each in (2, 3))
    leave(connection, 4)
    assert all(ways(connection, each) for each in (2, 3, 4))


def test_messages_of_an_older_program_are_not_known(connection: apsw.Connection) -> None:
    append(connection, entry(0))
    rows(connection, "DELETE FROM names")
    assert ways(connection, 0) == []
    assert expiry.sweep(connection, now=61.0, entire=True, in_flight=InFlight()).messages
    assert ways(connection, 0) == []


# ---- what the hub said of tables, kept for a node without a link -----------------------------------------------------


def topic(name: str, as_of: float) -> TopicReach:
    table = ReadingTable(reader="r", name="x", start="", position="1" * 40, batch=3)
    return TopicReach(topic=name, service="s", generation=1, as_of=as_of, tables=[table])


def test_the_latest_of_each_topic_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = tables()
    receipt_tables.keep_topics(connection, topics=[topic("n/a", 1.0), topic("n/b", 2.0)])
    receipt_tables.keep_topics(connection, topics=[topic("n/a", 3.0)])
    assert receipt_tables.read_topics(connection) == {"n/a": topic("n/a", 3.0), "n/b": topic("n/b", 2.0)}
    monkeypatch.setattr(receipt_tables, "TOPICS_MAX", 1)
    receipt_tables.keep_topics(connection, topics=[])
    assert set(receipt_tables.read_topics(connection)) == {"n/a"}


def test_what_the_disk_changed_is_forgotten() -> None:
    connection = tables()
    receipt_tables.keep_topics(connection, topics=[topic("n/a", 1.0)])
    rows(connection, "UPDATE reached SET content = x'00'")
    assert (receipt_tables.read_topics(connection), count(connection, "reached")) == ({}, 1)


# ---- where a message is, by the tables: while it waits, after it left, in the dead letters ---------------------------


def test_a_message_that_waits_is_found_with_what_is_before_it(connection: apsw.Connection) -> None:
    other = Reference(ALARMS, None, "n/u")
    append(connection, entry(0), entry(1, other), entry(2), entry(3, other, Reference(REST, 60.0, "n/t")), now=5)
    [alone] = ways(connection, 2)
    assert isinstance(alone, Waiting)
    assert (alone.queue, alone.topic, alone.ahead, alone.expires) == (REST, "n/t", 1, 65.0)
    out = InFlight()
    out.take(REST, [2])
    both = ways(connection, 3, out)
    assert {(each.queue, each.ahead, each.in_flight) for each in both if isinstance(each, Waiting)} == {
        (ALARMS, 1, False),
        (REST, 2, True),
    }
    assert ways(connection, 9) == []


def test_a_message_that_left_is_found_in_its_page(connection: apsw.Connection) -> None:
    append(connection, entry(0, author=b"auth"), entry(1), now=5)
    settle(connection, REST, 0, departures=[page(0)])
    [way] = ways(connection, 0)
    assert isinstance(way, LeftQueue) and (way.queue, way.entry.position) == (REST, "1" * 40)
    assert (way.author, way.entry.enqueued) == (b"auth", 5.0)
    assert isinstance(ways(connection, 1)[0], Waiting)


def test_an_offset_that_came_again_claims_nothing_of_before(connection: apsw.Connection) -> None:
    """After a disk lost a queue's next offset, an earlier departure belongs to another message."""
    append(connection, entry(0))
    settle(connection, REST, 0, departures=[page(0)])
    rows(connection, "UPDATE queues SET next_offset = 0, checkpoint = -1")
    append_job.append_once(connection, [entry(1)], epoch=2, now=9, max_bytes=10**9, idempotency=None)
    assert isinstance(ways(connection, 1)[0], Waiting) and not ways(connection, 0)
    settle(connection, REST, 0)
    assert not ways(connection, 0) and not ways(connection, 1)


def test_a_dead_letter_is_found_and_one_that_quotes_it_is_not(connection: apsw.Connection) -> None:
    quoting = entry(1)
    quoting = Entry(quoting.id, quoting.content[:-2] + b'"%s"}' % id_of(0).hex().encode(), quoting.references)
    append(connection, entry(0), quoting)
    settle(connection, REST, refused=(Refusal(0, "bad_body", "why"), Refusal(1, "bad_body", "why")))
    [way] = ways(connection, 0)
    assert isinstance(way, DeadLettered) and (way.number, way.code) == (1, "bad_body")


def test_what_the_disk_changed_is_not_told(connection: apsw.Connection) -> None:
    append(connection, entry(0), entry(1), entry(5))
    settle(connection, REST, 2, departures=[page(2)])
    for change in (
        "UPDATE departed SET newest = '2'",
        "UPDATE departed SET low = 1",
        "UPDATE departed SET epoch = 2",
        "UPDATE names SET enqueued = 2.0",
        "UPDATE names SET number = number + 1",  # other offsets
        "UPDATE names SET authors = x'61757468'",
        "UPDATE queues SET id = 7",
    ):
        connection.execute("SAVEPOINT change")
        assert ways(connection, 5)
        rows(connection, change)
        assert ways(connection, 5) == [], change
        connection.execute("ROLLBACK TO change")
    rows(connection, "UPDATE references_ SET checksum = 1 WHERE offset = 0")
    assert ways(connection, 0) == []
    for table, column in (("names", "span"), ("names", "ids"), ("names", "enqueued"), ("departed", "among")):
        for value in (5, "text", id_of(5).decode(), id_of(1).decode(), b"", 2**62):  # another type, or another value
            connection.execute("SAVEPOINT change")
            connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
            ways(connection, 5), ways(connection, 1)
            settle(connection, REST, 0)
            append(connection, entry(9))
            connection.execute("ROLLBACK TO change")
