"""Messages that live as long as their EdgeRoutes object says: when that changes, so does when they expire.

    a time to live by object ─follow (a step)─▶ runs that inherit it and have not expired: enqueued + time to live

What has expired stays so: a longer time to live brings nothing back.  A message of an object that went keeps what it
said last.
"""

from __future__ import annotations

from typing import NamedTuple

import apsw

from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.checksum import of_expiry

STEP_ROWS = 1000
"""Runs that one transaction changes, so that producers do not wait for it."""


class RunPlace(NamedTuple):
    """After which run a step begins."""

    segment: int = -1
    queue: int = -1


class StaleRun(NamedTuple):
    """A run that expires otherwise than its object says now."""

    segment: int
    queue: int
    expires: float | None
    checksum: int


def stale(
    connection: apsw.Connection, name: str, ttl_seconds: float | None, *, after: RunPlace, now: float
) -> list[StaleRun]:
    """The next runs of that object; fewer than ``STEP_ROWS`` are the last."""
    return [
        StaleRun(segment, queue, None if ttl_seconds is None else enqueued + ttl_seconds, checksum)
        for segment, queue, enqueued, checksum in rows(
            connection, sql.STALE_RUNS, (name, now, ttl_seconds, *after, STEP_ROWS)
        )
        if isinstance(enqueued, float) and isinstance(checksum, int)
    ]


def follow(connection: apsw.Connection, runs: list[StaleRun], *, now: float) -> None:
    """From now on they expire as their object says."""
    connection.executemany(
        sql.SET_EXPIRY,
        [(run.expires, of_expiry(run.checksum, run.expires), run.segment, run.queue, now) for run in runs],
    )
