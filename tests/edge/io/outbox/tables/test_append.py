"""One request of a producer: its key, its room."""

from __future__ import annotations

import pytest
from tests.support.edges.outbox_tables import append, tables

from fairlead_edge.io.outbox.tables import append as append_job
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.outbox import IdempotencyKey
from fairlead_edge.outbox.queues import QueueId

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
