"""The tables of an outbox in memory, and the jobs that fill and empty them, with defaults that suit most tests."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from fairlead_edge.io.outbox.tables import append as append_job
from fairlead_edge.io.outbox.tables import settlement
from fairlead_edge.io.outbox.tables.schema import prepare
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.gaps import Damage
from fairlead_edge.outbox.outbox import Entry, IdempotencyKey, Refusal
from fairlead_edge.outbox.queues import QueueId
from fairlead_edge.outbox.receipts.departure import Departure


def tables() -> apsw.Connection:
    """An empty outbox."""
    opened = apsw.Connection(":memory:")
    prepare(opened)
    return opened


def append(
    connection: apsw.Connection, *entries: Entry, idempotency: IdempotencyKey | None = None, now: float = 0
) -> bytes | None:
    """Store these messages as accepted."""
    return append_job.append_once(connection, entries, epoch=1, now=now, max_bytes=10**9, idempotency=idempotency)


def settle(
    connection: apsw.Connection,
    queue: QueueId,
    *sent: int,
    refused: tuple[Refusal, ...] = (),
    departures: Sequence[Departure] = (),
) -> list[Damage]:
    """Apply the hub's response."""
    return settlement.settle(
        connection,
        queue,
        sent=sent,
        refused=refused,
        checkpoint=max(sent, default=-1),
        at="t",
        departures=departures,
    )


def count(connection: apsw.Connection, table: str) -> int:
    """Rows of a table."""
    found: int = rows(connection, f"SELECT count(*) FROM {table}")[0][0]
    return found
