"""Reading stays cheap whatever lies in the tables: by plan and by SQLite's own instructions."""

from __future__ import annotations

import re

import apsw
import pytest
from tests.support.edges.outbox_tables import append, count, tables

from fairlead_edge.io.outbox.tables import append as append_job
from fairlead_edge.io.outbox.tables import dead_letters, expiry, log, settlement, store_state
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.age import Stamp
from fairlead_edge.outbox.outbox import Entry, Reference, Refusal
from fairlead_edge.outbox.queues import InFlight, QueueId

REST = QueueId("iothub")
EXPIRED = 50_000


@pytest.fixture(scope="module")
def backlog() -> bytes:
    opened = tables()
    entries = [Entry("", b"old", (Reference(REST, 1.0),))] * EXPIRED
    append(opened, *entries, Entry("", b"live", (Reference(REST),)))
    return opened.serialize("main")


@pytest.fixture
def connection(backlog: bytes) -> apsw.Connection:
    opened = tables()
    opened.deserialize("main", backlog)
    return opened


def test_live_message_behind_a_long_expired_run_is_found_at_once(connection: apsw.Connection) -> None:
    """The run is skipped in one scan of narrow rows, without reading bodies."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1000
        return False

    connection.set_progress_handler(count, 1000)
    [item] = log.fetch(connection, REST, after=-1, now=5, messages_max=256, bytes_max=10**6).items
    assert (item.offset, item.content) == (EXPIRED, b"live")
    assert 0 < steps < 25 * EXPIRED, "instructions of SQLite's machine"


def test_status_counts_the_expired_run_without_removing_it(connection: apsw.Connection) -> None:
    """It uses the expiry index; messages in flight count as waiting even if they expired."""
    out = InFlight()
    [queue] = store_state.queue_status(connection, now=5, max_bytes=1, in_flight=out).queues
    assert (queue.length, queue.expired, queue.bytes) == (1, EXPIRED, 4)
    out.take(REST, range(3))
    [queue] = store_state.queue_status(connection, now=5, max_bytes=1, in_flight=out).queues
    assert (queue.length, queue.expired) == (4, EXPIRED - 3) and queue.bytes > 4


def test_no_question_and_no_job_walks_the_backlog(connection: apsw.Connection) -> None:
    """Every executed statement has a plan that searches; none scans the log or the bodies."""
    seen: set[str] = set()

    def note(cursor: apsw.Cursor, statement: str, bindings: object) -> bool:
        seen.add(statement)
        return True

    connection.exec_trace = note
    out = InFlight()
    out.take(REST, range(3))
    store_state.queue_status(connection, now=5, max_bytes=1, in_flight=out)
    log.fetch(connection, REST, after=-1, now=5, messages_max=1, bytes_max=1)
    dead_letters.after(connection, after=0, limit=1)
    refused = [Refusal(EXPIRED, "no", "why")]
    settlement.settle(connection, REST, sent=[1, 2], refused=refused, checkpoint=2, at="t")
    append_job.replay(connection, [1], epoch=1, now=5, max_bytes=10**9, limit=5)
    dead_letters.evict_refused(connection, bytes_max=0)
    dead_letters.date_refused(connection, 5)
    dead_letters.expire_refused(connection, before=9)
    dead_letters.discard(connection, [1])
    for entire in (False, True):
        expiry.sweep(connection, now=5, entire=entire, in_flight=out)
    connection.exec_trace = None
    for statement in seen:
        named = [number for number in range(1, 9) if f"?{number}" in statement]
        parameters = (0,) * (max(named) if named else statement.count("?"))
        for row in rows(connection, f"EXPLAIN QUERY PLAN {statement}", parameters):
            assert not re.match(r"SCAN (r|references_|segments|u|runs|receipts)\b(?! USING)", str(row[-1])), (
                statement,
                row[-1],
            )


def test_clock_is_written_over() -> None:
    connection = tables()
    assert store_state.load_stamp(connection) is None
    for age in (1.0, 2.0):
        stamp = Stamp(boot_id="b", boot_seconds=age, wall_seconds=3, age_seconds=age)
        store_state.save_stamp(connection, stamp)
    assert store_state.load_stamp(connection) == stamp
    assert count(connection, "clock") == 1
