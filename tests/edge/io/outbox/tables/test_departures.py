"""Receipts in the tables: found while a message waits, after it left, and not beyond the ring."""

from __future__ import annotations

import apsw
import pytest
from tests.support.edges.outbox_tables import append, count, tables

from fairlead_edge.io.outbox.tables import departures, eviction, expiry, whereabouts
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.in_flight import InFlight
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queue_id import QueueId
from fairlead_edge.outbox.receipts import departure as pages
from fairlead_edge.outbox.receipts import mark
from fairlead_edge.outbox.receipts.departure import PAGE_BYTES, Departure
from fairlead_edge.outbox.receipts.receipt import Left, Way

ALARMS, REST = QueueId("iothub", 0), QueueId("iothub", 1)


def id_of(number: int) -> bytes:
    return (number + 1).to_bytes(16, "big")


def entry(number: int, *references: Reference, author: bytes = mark.NO_AUTHOR) -> Entry:
    id = id_of(number)
    content = b'{"id":"%s","source":"/messages","body":1}' % id.hex().encode()
    return Entry(id.hex(), content, references or (Reference(REST, 60.0, "n/t"),), id + author)


@pytest.fixture
def connection() -> apsw.Connection:
    return tables()


def ways(connection: apsw.Connection, number: int, in_flight: InFlight | None = None) -> list[Way]:
    return whereabouts.whereabouts(connection, id=id_of(number), in_flight=in_flight or InFlight())


def page(*numbers: int, outcome: pages.Outcome = "in_topic") -> Departure:
    entries = b"".join(pages.entry(id_of(number) + mark.NO_AUTHOR, 1.0) for number in numbers)
    return Departure(outcome=outcome, left_at=2.0, topic="n/t", newest="1" * 40, entries=entries)


def test_what_expired_or_was_evicted_is_remembered(connection: apsw.Connection) -> None:
    """With its author, from what the run keeps."""
    append(connection, entry(0, author=b"auth"), entry(1, Reference(REST, None, "n/t")))
    assert expiry.sweep(connection, now=61.0, entire=True, in_flight=InFlight())
    [way] = ways(connection, 0)
    assert isinstance(way, Left)
    assert (way.departure.outcome, way.departure.left_at, way.author) == ("expired", 61.0, b"auth")
    assert eviction.evict(connection, 0, 1, eviction.Eviction(InFlight(), [], 70.0))
    [way] = ways(connection, 1)
    assert isinstance(way, Left) and (way.departure.outcome, way.departure.left_at) == ("evicted", 70.0)


def test_the_ring_forgets_the_oldest(connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """By bytes, however many messages a page has."""
    append(connection, entry(0))
    monkeypatch.setattr(departures, "RING_BYTES_MAX", 3 * PAGE_BYTES)
    for number in range(6):
        departures.note(connection, 1, [page(number)])
    assert count(connection, "departures") == 3, "the oldest ends within the ring"
    assert [bool(ways(connection, number)) for number in range(1, 6)] == [False, False, True, True, True]
    assert departures.oldest(connection) == 2.0
    departures.note(connection, 1, [page(*range(10, 200))])
    assert count(connection, "departures") == 1, "one that is larger than the ring is kept alone"


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_a_number_that_the_disk_changed_keeps_nothing_from_leaving(connection: apsw.Connection, number: int) -> None:
    """There is no higher one: what is remembered goes, messages go on."""
    append(connection, entry(0))
    departures.note(connection, 1, [page(1)])
    rows(connection, f"UPDATE departures SET number = {number}")
    departures.note(connection, 1, [page(2), page(3)])
    assert all(ways(connection, each) for each in (2, 3))
    departures.note(connection, 1, [page(4)])
    assert all(ways(connection, each) for each in (2, 3, 4))


def test_messages_of_an_older_program_are_not_known(connection: apsw.Connection) -> None:
    """They have no marks, and expire like others."""
    append(connection, entry(0))
    rows(connection, "DELETE FROM marks")
    assert ways(connection, 0) == []
    assert expiry.sweep(connection, now=61.0, entire=True, in_flight=InFlight())
    assert count(connection, "departures") == 0
