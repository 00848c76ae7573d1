"""Messages whose time to live ended."""

from __future__ import annotations

import pytest
from tests.support.edges.outbox_tables import append, tables

from fairlead_edge.io.outbox.tables import expiry
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import InFlight, QueueId

REST = QueueId("iothub")


@pytest.mark.parametrize(("entire", "gone"), [(False, [0]), (True, [0, 2, 3])])
def test_heads_only_or_everywhere(entire: bool, gone: list[int]) -> None:
    """The head of a queue ends at the first live message; the index finds the others."""
    connection = tables()
    for ttl in (1.0, None, 1.0, 1.0):
        append(connection, Entry("", b"x", (Reference(REST, ttl),)))
    swept = expiry.sweep(connection, now=2, entire=entire, in_flight=InFlight()).messages
    assert sorted(offset for _, offsets in swept for offset in offsets) == gone
    assert rows(connection, "SELECT expired FROM queues") == [(len(gone),)]


def test_what_is_in_flight_waits_for_its_answer() -> None:
    """It may have arrived."""
    connection = tables()
    append(connection, *[Entry("", b"x", (Reference(REST, 1.0),))] * 3)
    out = InFlight()
    out.take(REST, [1])
    assert expiry.sweep(connection, now=2, entire=True, in_flight=out).messages == [(REST, [0, 2])]


def test_a_damaged_time_to_live_is_not_believed() -> None:
    """The message may be live; a scrub counts it as damaged instead."""
    connection = tables()
    append(connection, Entry("", b"x", (Reference(REST, 1000.0),)))
    rows(connection, "UPDATE runs SET expires = 1.0")
    for entire in (False, True):
        assert expiry.sweep(connection, now=2, entire=entire, in_flight=InFlight()).messages == []
