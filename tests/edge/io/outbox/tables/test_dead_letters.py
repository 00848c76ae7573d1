"""Dead letters in their table."""

from __future__ import annotations

from tests.support.edges.outbox_tables import append, settle, tables

from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.outbox import Entry, Reference, Refusal
from fairlead_edge.outbox.queues import QueueId

ALARMS = QueueId("iothub", 0)


def test_numbers_of_dead_letters_are_never_used_again() -> None:
    """So that a replay by number cannot mean another message."""
    connection = tables()
    for _ in range(2):
        append(connection, Entry("a", b"x", (Reference(ALARMS),)))
        [(offset,)] = rows(connection, "SELECT max(offset) FROM references_")
        settle(connection, ALARMS, refused=(Refusal(offset, "no", "why"),))
        rows(connection, "DELETE FROM dead_letters")
    append(connection, Entry("a", b"x", (Reference(ALARMS),)))
    settle(connection, ALARMS, refused=(Refusal(2, "no", "why"),))
    assert rows(connection, "SELECT number FROM dead_letters") == [(3,)]
