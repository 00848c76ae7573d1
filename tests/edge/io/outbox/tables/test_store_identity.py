"""Whose outbox it is, and what its clock shows."""

from __future__ import annotations

import pytest
from tests.support.edges.outbox_tables import append, count, settle, tables

from fairlead_edge.errors import NotOurs
from fairlead_edge.io.outbox.tables import store_state
from fairlead_edge.outbox.age import Stamp
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import QueueId

REST = QueueId("iothub")


def test_clock_is_written_over() -> None:
    """One row, the latest."""
    connection = tables()
    assert store_state.load_stamp(connection) is None
    for age in (1.0, 2.0):
        stamp = Stamp(boot_id="b", boot_seconds=age, wall_seconds=3, age_seconds=age)
        store_state.save_stamp(connection, stamp)
    assert store_state.load_stamp(connection) == stamp
    assert count(connection, "clock") == 1


def test_another_node_may_have_the_store_when_it_is_empty() -> None:
    """What one node accepted is not sent under another's name."""
    connection = tables()
    store_state.take_ownership(connection, "edge-1")
    append(connection, Entry("", b"x", (Reference(REST),)))
    with pytest.raises(NotOurs, match="1 messages that node 'edge-1' accepted"):
        store_state.take_ownership(connection, "edge-2")
    settle(connection, REST, 0)
    store_state.take_ownership(connection, "edge-2")
