"""Dead letters in their table."""

from __future__ import annotations

from tests.support.edges.outbox_tables import append, count, settle, tables

from fairlead_edge.io.outbox.tables import append as append_job
from fairlead_edge.io.outbox.tables import dead_letters
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


def test_what_is_replayed_was_accepted_once() -> None:
    connection = tables()
    append(connection, *[Entry("", b"x", (Reference(ALARMS, 60.0, "default/t"),))] * 3)
    settle(connection, ALARMS, refused=(Refusal(0, "no", "why"), Refusal(2, "no", "why")))
    assert append_job.replay(connection, [2, 9], epoch=7, now=5, max_bytes=10**9, limit=5) == 1
    assert rows(connection, "SELECT accepted, stored, next_offset FROM queues") == [(3, 2, 4)]
    assert append_job.replay(connection, None, epoch=7, now=5, max_bytes=10**9, limit=5) == 1
    assert count(connection, "dead_letters") == 0
    assert append_job.replay(connection, None, epoch=7, now=5, max_bytes=10**9, limit=5) == 0


def test_a_letter_that_the_disk_changed_is_named_but_not_shown() -> None:
    connection = tables()
    append(connection, *[Entry("", b"x", (Reference(ALARMS),))] * 2)
    settle(connection, ALARMS, refused=(Refusal(0, "no", "why"), Refusal(1, "no", "why")))
    rows(connection, "UPDATE dead_letters SET reason = 'other' WHERE number = 1")
    read = dead_letters.after(connection, after=0, limit=9)
    assert [letter.number for letter in read.letters] == [2] and read.damaged == [1]
