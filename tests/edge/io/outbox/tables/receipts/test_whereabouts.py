"""Where a message is, by the tables: while it waits, after it left, in the dead letters."""

from __future__ import annotations

import apsw
import pytest
from tests.support.edges.departed import ALARMS, REST, entry, id_of, page, ways
from tests.support.edges.outbox_tables import append, settle, tables

from fairlead_edge.io.outbox.tables import append as append_job
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.outbox import Entry, Reference, Refusal
from fairlead_edge.outbox.queues import InFlight
from fairlead_edge.outbox.receipts.receipt import DeadLettered, LeftQueue, Waiting


@pytest.fixture
def connection() -> apsw.Connection:
    return tables()


def test_a_message_that_waits_is_found_with_what_is_before_it(connection: apsw.Connection) -> None:
    """In each of its queues, also where messages of one request take turns."""
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
    """A disk that lost where a queue stood: what left in an earlier life of the store was another message."""
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
