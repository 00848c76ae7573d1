"""One request of a producer: its key, its room."""

from __future__ import annotations

import pytest
from tests.support.edges.outbox_tables import append, tables

from fairlead_edge.errors import KeyReused, StoreFull
from fairlead_edge.io.outbox.tables import append as append_job
from fairlead_edge.io.outbox.tables.append import Eviction, evict
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.outbox import Entry, IdempotencyKey, Reference
from fairlead_edge.outbox.queues import InFlight, QueueId

REST = QueueId("iothub")


def test_keys_are_bounded_in_number_and_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "IDEMPOTENCY_KEYS_MAX", 3)
    connection = tables()
    for number in range(6):
        append(connection, idempotency=IdempotencyKey(f"k{number}", b"d", b"a"), now=number)
    append_job.forget_keys(connection, now=6)
    assert rows(connection, "SELECT key FROM receipts ORDER BY key") == [("k2",), ("k3",), ("k4",), ("k5",)]
    append_job.forget_keys(connection, now=outbox.IDEMPOTENCY_SECONDS + 5)
    assert rows(connection, "SELECT key FROM receipts") == [("k5",)]


def test_a_known_key_stores_nothing() -> None:
    """The first answer comes back, also where the disk changed its row: the key did come before."""
    connection = tables()
    entry = Entry("a", b"x", (Reference(REST),))
    assert append(connection, entry, idempotency=IdempotencyKey("k", b"d", b"first")) is None
    assert append(connection, entry, idempotency=IdempotencyKey("k", b"d", b"second")) == b"first"
    with pytest.raises(KeyReused):
        append(connection, entry, idempotency=IdempotencyKey("k", b"other", b"second"))
    rows(connection, "UPDATE receipts SET answer = x'00'")
    assert append(connection, entry, idempotency=IdempotencyKey("k", b"other", b"second")) == b"second"
    assert rows(connection, "SELECT accepted FROM queues") == [(1,)]


def test_a_full_store_says_how_full() -> None:
    connection = tables()
    with pytest.raises(StoreFull, match="holds 0 of 50 bytes, 65 more do not fit"):
        append_job.append_once(
            connection, [Entry("", b"x", (Reference(REST),))], epoch=1, now=0, max_bytes=50, idempotency=None
        )


# ---- what makes room for the more urgent -----------------------------------------------------------------------------


ALARMS, LATER = QueueId("iothub", 0), QueueId("iothub", 5)


def test_the_least_urgent_goes_first_and_what_is_in_flight_stays() -> None:
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
