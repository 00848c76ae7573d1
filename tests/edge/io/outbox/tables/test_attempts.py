"""Attempts in their table: kept with their messages, gone with them, and not believed when the disk changed them."""

from __future__ import annotations

from tests.support.edges.outbox_tables import append, count, settle, tables

from fairlead_edge.io.outbox.tables import settlement
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import Attempt, QueueId

QUEUE = QueueId("edge-1/m/in", 3)


def attempt(offset: int, number: int = 1) -> Attempt:
    return Attempt(offset=offset, id=f"id-{offset}", number=number, leased=True, until=60.0, waited_seconds=1.5)


def test_latest_attempt_is_kept_until_its_message_goes() -> None:
    """Of a message that is not there nothing is kept."""
    connection = tables()
    settlement.note_attempts(connection, QUEUE, [attempt(0)])
    append(connection, *(Entry(name, name.encode(), (Reference(QUEUE),)) for name in "ab"))
    settlement.note_attempts(connection, QUEUE, [attempt(0), attempt(1), attempt(9)])
    settlement.note_attempts(connection, QUEUE, [attempt(1, number=2)])
    assert settlement.read_attempts(connection) == {QUEUE: [attempt(0), attempt(1, number=2)]}
    settle(connection, QUEUE, 0, 1)
    assert settlement.read_attempts(connection) == {}
    assert count(connection, "attempts") == 0


def test_damaged_attempt_counts_as_none() -> None:
    """Then the message is given out as if for the first time."""
    connection = tables()
    append(connection, *(Entry(name, name.encode(), (Reference(QUEUE),)) for name in "ab"))
    settlement.note_attempts(connection, QUEUE, [attempt(0), attempt(1)])
    connection.execute("UPDATE attempts SET until = 1e300 WHERE offset = 0")
    assert settlement.read_attempts(connection) == {QUEUE: [attempt(1)]}
