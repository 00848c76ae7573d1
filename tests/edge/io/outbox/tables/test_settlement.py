"""What became of messages that left."""

from __future__ import annotations

from tests.support.edges.outbox_tables import append, count, settle, tables

from fairlead_edge.io.outbox.tables import log, settlement
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.outbox import Entry, Reference, Refusal
from fairlead_edge.outbox.queues import Attempt, QueueId

ALARMS, REST = QueueId("iothub", 0), QueueId("iothub")


def test_dead_letter_keeps_its_body_when_the_queue_lets_go() -> None:
    """It has its own copy, independent of other queues' references."""
    connection = tables()
    append(connection, Entry("a", b"shared", (Reference(ALARMS), Reference(REST))))
    settle(connection, ALARMS, refused=(Refusal(0, "no", "why"),))
    settle(connection, REST, 0)
    assert [count(connection, table) for table in ("segments", "runs", "references_")] == [0, 0, 0]
    assert rows(connection, "SELECT content FROM dead_letters") == [(b"shared",)]


def test_a_checkpoint_passes_nothing_that_was_not_accepted() -> None:
    connection = tables()
    append(connection, Entry("a", b"x", (Reference(REST),)))
    settle(connection, REST, 0, 17)
    assert log.checkpoint(connection, REST) == 0
    assert settle(connection, ALARMS, 0) == []


QUEUE = QueueId("edge-1/m/in", 3)


def attempt(offset: int, number: int = 1) -> Attempt:
    return Attempt(offset=offset, id=f"id-{offset}", number=number, leased=True, until=60.0, waited_seconds=1.5)


def test_damaged_attempt_counts_as_none() -> None:
    connection = tables()
    append(connection, *(Entry(name, name.encode(), (Reference(QUEUE),)) for name in "ab"))
    settlement.note_attempts(connection, QUEUE, [attempt(0), attempt(1)])
    connection.execute("UPDATE attempts SET until = 1e300 WHERE offset = 0")
    assert settlement.read_attempts(connection) == {QUEUE: [attempt(1)]}
