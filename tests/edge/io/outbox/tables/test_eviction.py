"""What makes room for the more urgent."""

from __future__ import annotations

from tests.support.edges.outbox_tables import append, tables

from fairlead_edge.io.outbox.tables.append import Eviction, evict
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import InFlight, QueueId

ALARMS, LATER, REST = QueueId("iothub", 0), QueueId("iothub", 5), QueueId("iothub")


def test_the_least_urgent_goes_first_and_what_is_in_flight_stays() -> None:
    """Queues as urgent as the arriving message are spared."""
    connection = tables()
    for queue in (ALARMS, LATER, REST):
        append(connection, *[Entry("", b"x" * 100, (Reference(queue),))] * 4)
    out = InFlight()
    out.take(REST, [1])
    eviction = Eviction(out, [])
    freed = evict(connection, ALARMS.priority, 3 * 100 + 4 * outbox.REFERENCE_BYTES, eviction)
    assert freed >= 3 * 100 + 4 * outbox.REFERENCE_BYTES
    assert eviction.evicted == [(REST, [0, 2, 3]), (LATER, [0, 1, 2, 3])]
    assert rows(connection, "SELECT priority, evicted FROM queues ORDER BY priority") == [
        (0, 0),
        (5, 4),
        (REST.priority, 3),
    ]
