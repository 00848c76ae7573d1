"""The state of the outbox as a whole, in its tables: totals of each queue, the clock, and the owner."""

from __future__ import annotations

import json

import apsw

from fairlead_edge.errors import NotOurs
from fairlead_edge.io.outbox.tables import dead_letters
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.age import Stamp
from fairlead_edge.outbox.queues import InFlight, QueueId


def queue_status(
    connection: apsw.Connection, *, now: float, max_bytes: int, in_flight: InFlight, refused_bytes_max: int = 0
) -> outbox.OutboxStatus:
    """The counters of each queue; a message that expired counts as expired even while stored, unless it is in
    flight."""
    gone = {queue: (count, size) for queue, count, size in rows(connection, sql.EXPIRED_BY_QUEUE, (now,))}
    dead = dict(rows(connection, sql.DEAD_LETTERS_BY_QUEUE))
    found: list[outbox.QueueCounts] = []
    for row in rows(connection, sql.QUEUE_COUNTERS):
        number, endpoint, priority, at, stored, size, accepted, sent, expired, evicted, damaged = row
        queue = QueueId(endpoint, priority)
        gone_count, gone_size = gone.get(number, (0, 0))
        out_count, out_size = _expired_in_flight(connection, number, in_flight.of(queue), now)
        gone_count, gone_size = gone_count - out_count, gone_size - out_size
        passed_count, passed_size = rows(connection, sql.PASSED, (number, at, now))[0]
        oldest = rows(connection, sql.OLDEST_LIVE, (number, at, now))
        found.append(
            outbox.QueueCounts(
                endpoint=endpoint,
                priority=priority,
                queue=str(queue),
                length=stored - gone_count - passed_count,
                bytes=size - gone_size - passed_size,
                oldest_age_seconds=max(0.0, now - (oldest[0][0] or 0.0)) if oldest else 0.0,
                accepted=accepted,
                sent=sent,
                expired=expired + gone_count + passed_count,
                evicted=evicted,
                damaged=damaged,
                dead_lettered=dead.get(number, 0),
                checkpoint=at,
                in_doubt=in_flight.ended_in_doubt[queue],
            )
        )
    used = rows(connection, sql.USED_BYTES)[0][0]
    refused_letters, refused_bytes = dead_letters.refused_input(connection)
    return outbox.OutboxStatus(
        queues=tuple(found),
        bytes=used,
        max_bytes=max_bytes,
        dead_letters=sum(dead.values()),
        refused_letters=refused_letters,
        refused_bytes=refused_bytes,
        refused_bytes_max=refused_bytes_max,
    )


def _expired_in_flight(connection: apsw.Connection, number: int, out: frozenset[int], now: float) -> tuple[int, int]:
    """How many references in flight have expired, and their bytes."""
    if not out:
        return 0, 0
    [(count, size)] = rows(connection, sql.EXPIRED_OF_LISTED, (number, json.dumps(sorted(out)), now))
    return count, size


def load_stamp(connection: apsw.Connection) -> Stamp | None:
    """The store's clock as last saved."""
    found = rows(connection, sql.CLOCK)
    if not found:
        return None
    boot_id, boot_seconds, wall_seconds, age_seconds = found[0]
    return Stamp(boot_id=boot_id, boot_seconds=boot_seconds, wall_seconds=wall_seconds, age_seconds=age_seconds)


def save_stamp(connection: apsw.Connection, stamp: Stamp) -> None:
    """Save the store's clock."""
    connection.execute(sql.SET_CLOCK, (stamp.boot_id, stamp.boot_seconds, stamp.wall_seconds, stamp.age_seconds))


def take_ownership(connection: apsw.Connection, node: str) -> None:
    """Make this node the owner.  Raises ``NotOurs`` while the store holds messages that another node accepted."""
    owner = rows(connection, sql.OWNER)
    if owner == [(node,)]:
        return
    [(held,)] = rows(connection, sql.HELD)
    if owner and held:
        raise NotOurs(owner[0][0], node, held)
    connection.execute(sql.SET_OWNER, (node,))
