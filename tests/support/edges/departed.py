"""Messages in the receipt tables, and their destinations."""

from __future__ import annotations

import apsw

from fairlead_edge.io.outbox.tables import receipt_tables
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import InFlight, QueueId
from fairlead_edge.outbox.receipts import departure as pages
from fairlead_edge.outbox.receipts import marks
from fairlead_edge.outbox.receipts.departure import Departure
from fairlead_edge.outbox.receipts.receipt import Way

ALARMS, REST = QueueId("iothub", 0), QueueId("iothub", 1)


def id_of(number: int) -> bytes:
    """The id of the message with this number."""
    return (number + 1).to_bytes(16, "big")


def entry(number: int, *references: Reference, author: bytes = marks.NO_AUTHOR) -> Entry:
    """The entry that the store gets when the message is accepted."""
    id = id_of(number)
    content = b'{"id":"%s","source":"/messages","body":1}' % id.hex().encode()
    return Entry(id.hex(), content, references or (Reference(REST, 60.0, "n/t"),), id + author)


def ways(connection: apsw.Connection, number: int, in_flight: InFlight | None = None) -> list[Way]:
    """The destinations of the message with this number."""
    return receipt_tables.whereabouts(connection, id=id_of(number), in_flight=in_flight or InFlight())


def page(*offsets: int, outcome: pages.Outcome = "in_topic") -> Departure:
    """The receipts of offsets that were sent together."""
    return Departure(
        outcome=outcome, left_at=2.0, topic="n/t", newest="1" * 40, epoch=1, low=min(offsets), high=max(offsets),
        among=pages.among(offsets),
    )  # fmt: skip
