"""The logs in the tables: bodies once, no rewriting to count."""

from __future__ import annotations

import apsw
from tests.support.edges.outbox_tables import append, count, settle, tables

from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import QueueId

ALARMS, REST = QueueId("iothub", 0), QueueId("iothub")


def sizes(connection: apsw.Connection) -> tuple[int, ...]:
    return tuple(count(connection, table) for table in ("segments", "runs", "references_"))


def test_bodies_lie_once_and_go_with_their_last_reference() -> None:
    connection = tables()
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


def test_counting_references_rewrites_no_body() -> None:
    """Flash wears by bytes written, so counts are stored separately."""
    connection = tables()
    append(connection, *[Entry("", b"x" * 1000, (Reference(REST),))] * 10)
    seen: list[str] = []

    def traced(cursor: apsw.Cursor, statement: str, bindings: apsw.Bindings | None) -> bool:
        seen.append(statement)
        return True

    connection.exec_trace = traced
    settle(connection, REST, 0, 1, 2)
    assert seen and not [statement for statement in seen if "segments" in statement]
