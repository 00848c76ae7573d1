"""Receipts in the tables: found while a message waits, after it left, and not beyond the ring."""

from __future__ import annotations

import apsw
import pytest
from tests.support.edges.departed import REST, entry, page, ways
from tests.support.edges.outbox_tables import append, count, settle, tables

from fairlead_edge.io.outbox.tables import expiry, receipt_tables
from fairlead_edge.io.outbox.tables.append import Eviction, evict
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.outbox import Reference, Refusal
from fairlead_edge.outbox.queues import InFlight
from fairlead_edge.outbox.receipts import marks
from fairlead_edge.outbox.receipts.departure import NAMES_BYTES, PAGE_BYTES
from fairlead_edge.outbox.receipts.receipt import LeftQueue


@pytest.fixture
def connection() -> apsw.Connection:
    return tables()


def leave(connection: apsw.Connection, *offsets: int) -> None:
    """These were acknowledged together."""
    settle(connection, REST, *offsets, departures=[page(*offsets)])


def test_what_expired_or_was_evicted_is_remembered(connection: apsw.Connection) -> None:
    """With its author, from what was kept when it was accepted."""
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
    """By bytes, however many messages a page has."""
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
    """A request that leaves in parts, some of it by a refusal or without a receipt."""
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
    """As what modules take: nothing of it is remembered."""
    append(connection, *(entry(number) for number in range(3)))
    settle(connection, REST, 0, 2)
    assert count(connection, "names") == 1
    settle(connection, REST, 1)
    assert count(connection, "names") == 0


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_a_number_that_the_disk_changed_keeps_nothing_from_leaving(connection: apsw.Connection, number: int) -> None:
    """There is no higher one: what is remembered goes, messages go on."""
    append(connection, *(entry(number) for number in range(5)))
    leave(connection, 1)
    rows(connection, f"UPDATE departed SET number = {number}")
    settle(connection, REST, 2, 3, departures=[page(2), page(3)])
    assert all(ways(connection, each) for each in (2, 3))
    leave(connection, 4)
    assert all(ways(connection, each) for each in (2, 3, 4))


def test_messages_of_an_older_program_are_not_known(connection: apsw.Connection) -> None:
    """They have no names, and expire like others."""
    append(connection, entry(0))
    rows(connection, "DELETE FROM names")
    assert ways(connection, 0) == []
    assert expiry.sweep(connection, now=61.0, entire=True, in_flight=InFlight()).messages
    assert ways(connection, 0) == []
