"""What the jobs leave in the tables: bodies once, no rewriting to count, bounded memory of keys."""

from __future__ import annotations

import apsw
import pytest

from fairlead_edge.io.outbox import jobs
from fairlead_edge.io.outbox.queries import load_stamp, rows
from fairlead_edge.io.outbox.schema import migrate
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.age import Stamp
from fairlead_edge.outbox.in_flight import InFlight
from fairlead_edge.outbox.outbox import Entry, Once, Reference, Refusal
from fairlead_edge.outbox.queue_id import QueueId

ALARMS, REST = QueueId("iothub", 0), QueueId("iothub")


@pytest.fixture
def connection() -> apsw.Connection:
    opened = apsw.Connection(":memory:")
    migrate(opened)
    return opened


def append(connection: apsw.Connection, *entries: Entry, once: Once | None = None, now: float = 0) -> bytes | None:
    return jobs.append(connection, entries, epoch=1, now=now, max_bytes=10**9, once=once)


def settle(connection: apsw.Connection, queue: QueueId, *sent: int, refused: tuple[Refusal, ...] = ()) -> None:
    jobs.settle(connection, queue, sent=sent, refused=refused, checkpoint=max(sent, default=-1), at="t")


def count(connection: apsw.Connection, table: str) -> int:
    found: int = rows(connection, f"SELECT count(*) FROM {table}")[0][0]
    return found


def sizes(connection: apsw.Connection) -> tuple[int, ...]:
    return tuple(count(connection, table) for table in ("segments", "runs", "references_"))


def test_bodies_lie_once_and_go_with_their_last_reference(connection: apsw.Connection) -> None:
    """However many queues refer to them; what goes to the same queues lies together."""
    append(
        connection,
        Entry("a", b"shared", (Reference(ALARMS), Reference(REST))),
        Entry("b", b"own", (Reference(REST),)),
        Entry("c", b"own", (Reference(REST),)),
    )
    assert sizes(connection) == (2, 3, 4)
    settle(connection, ALARMS, 0)
    assert sizes(connection) == (2, 2, 3)
    settle(connection, REST, 0, 1)
    assert sizes(connection) == (1, 1, 1)
    settle(connection, REST, 2)
    assert sizes(connection) == (0, 0, 0)
    assert rows(connection, "SELECT bytes FROM usage") == [(0,)]


def test_counting_references_rewrites_no_body(connection: apsw.Connection) -> None:
    """Flash wears by bytes written: the count lies apart."""
    append(connection, *[Entry("", b"x" * 1000, (Reference(REST),))] * 10)
    seen: list[str] = []
    connection.exec_trace = lambda cursor, statement, bindings: seen.append(statement) is None
    settle(connection, REST, 0, 1, 2)
    assert not [statement for statement in seen if "segments" in statement]


def test_dead_letter_keeps_its_body_when_the_queue_lets_go(connection: apsw.Connection) -> None:
    """It has its own copy: the other queues' references come and go."""
    append(connection, Entry("a", b"shared", (Reference(ALARMS), Reference(REST))))
    settle(connection, ALARMS, refused=(Refusal(0, "no", "why"),))
    settle(connection, REST, 0)
    assert sizes(connection) == (0, 0, 0)
    assert rows(connection, "SELECT content FROM dead_letters") == [(b"shared",)]


def test_numbers_of_dead_letters_are_never_used_again(connection: apsw.Connection) -> None:
    """So that a replay by number cannot mean another message."""
    for _ in range(2):
        append(connection, Entry("a", b"x", (Reference(ALARMS),)))
        [(offset,)] = rows(connection, "SELECT max(offset) FROM references_")
        settle(connection, ALARMS, refused=(Refusal(offset, "no", "why"),))
        rows(connection, "DELETE FROM dead_letters")
    append(connection, Entry("a", b"x", (Reference(ALARMS),)))
    settle(connection, ALARMS, refused=(Refusal(2, "no", "why"),))
    assert rows(connection, "SELECT number FROM dead_letters") == [(3,)]


def test_keys_are_bounded_in_number(connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go first."""
    monkeypatch.setattr(outbox, "RECEIPTS_MAX", 3)
    for number in range(6):
        append(connection, once=Once(f"k{number}", b"d", b"a"), now=number)
    jobs.sweep(connection, now=6, entire=False, in_flight=InFlight())
    assert rows(connection, "SELECT key FROM receipts ORDER BY key") == [("k2",), ("k3",), ("k4",), ("k5",)]


def test_clock_is_written_over(connection: apsw.Connection) -> None:
    """One row, the latest."""
    assert load_stamp(connection) is None
    for age in (1.0, 2.0):
        stamp = Stamp(boot_id="b", boot_seconds=age, wall_seconds=3, age_seconds=age)
        jobs.save_stamp(connection, stamp)
    assert load_stamp(connection) == stamp
    assert count(connection, "clock") == 1
