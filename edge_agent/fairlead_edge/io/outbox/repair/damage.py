"""What the outbox does with what its disk damaged: takes it out, counts it, and stores a record in its place.

One bad message harms itself alone: it is replaced by a gap record in its queue, with the topic it was for, or by a dead
letter where no topic is known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import apsw

from fairlead_edge.io.outbox.repair import statements as repair_sql
from fairlead_edge.io.outbox.tables import dead_letters, log
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.append import append
from fairlead_edge.io.outbox.tables.bodies import Bodies
from fairlead_edge.io.outbox.tables.receipts import names
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox import gaps, outbox
from fairlead_edge.outbox.gaps import Damage, QueueGap
from fairlead_edge.outbox.queue_id import QueueId
from fairlead_edge.routes.sink import UPSTREAM

_NO_LIMIT = 1 << 62
"""A record of what was lost is smaller than what it stands for, and the store's limit is no reason to be silent."""


def set_aside(
    connection: apsw.Connection,
    queue: QueueId,
    damaged: Sequence[Damage],
    *,
    topic: str = "",
    epoch: int,
    now: float,
    at: str,
    new_id: Callable[[], str],
) -> list[QueueGap]:
    """Take these out of the queue and count them; returns the gaps.  What is not there any more ended elsewhere.

    ``topic`` gets the records of those whose own is lost.
    """
    number = log.number_of(connection, queue) or 0
    offsets = json.dumps([each.offset for each in damaged])
    there = {offset for (offset,) in rows(connection, sql.PRESENT_OFFSETS, (number, offsets))}
    found = gaps.group((each for each in damaged if each.offset in there), topic=topic)
    removed = log.remove(connection, number, sorted(there))
    names.drop_of(connection, number, there)
    connection.execute(sql.COUNT_DAMAGED, (removed.messages, number))
    for gap in found:
        record(connection, queue, gap, epoch=epoch, now=now, at=at, new_id=new_id)
    return found


def drop_letters(
    connection: apsw.Connection,
    numbers: Sequence[int],
    *,
    epoch: int,
    now: float,
    at: str,
    new_id: Callable[[], str],
) -> int:
    """Dead letters that cannot be read: each becomes one that says so; returns how many."""
    dropped = 0
    for queue, offset in dead_letters.remove(connection, numbers):
        dropped += 1
        known = rows(connection, sql.QUEUE_BY_NUMBER, (queue,))
        if known:
            connection.execute(sql.COUNT_DAMAGED, (1, queue))
            gap = QueueGap(offset, offset, 1, "", "a dead letter on disk is damaged")
            record(connection, QueueId(*known[0]), gap, epoch=epoch, now=now, at=at, new_id=new_id)
    return dropped


def record(
    connection: apsw.Connection,
    queue: QueueId,
    gap: QueueGap,
    *,
    epoch: int,
    now: float,
    at: str,
    new_id: Callable[[], str],
) -> None:
    """Store the record of a gap: as the next message of its queue, or as a dead letter of it."""
    id = new_id()
    content = gaps.content(queue, gap, id=id, at=at)
    if queue.endpoint == UPSTREAM and gap.topic:
        entry = outbox.Entry(id, content, (outbox.Reference(queue, None, gap.topic),))
        append(connection, [entry], epoch=epoch, now=now, max_bytes=_NO_LIMIT, idempotency=None)
        return
    number = log.number_of(connection, queue) or 0
    connection.execute(sql.COUNT_ACCEPTED, (number,))
    dead_letters.put(connection, (number, gap.first, epoch, None, gap.topic, at, gaps.CODE, gap.reason), content)


def recount(connection: apsw.Connection) -> None:
    """Make every total again from what is there: sizes and counts may be among what was damaged.

    Walks the backlog; what no reference belongs to any more goes.
    """
    for statement in repair_sql.RECOUNT:
        rows(connection, statement)


def find(connection: apsw.Connection, queue: QueueId, *, after: int, limit: int) -> tuple[int | None, list[Damage]]:
    """Look at the next ``limit`` messages above ``after``, live or not; returns where to go on (None: at the end)."""
    read = Bodies(connection)
    seen = rows(connection, sql.ALL_MESSAGES, (log.number_of(connection, queue) or 0, after, limit))
    checked = [read.checked(queue, row) for row in seen]
    return (seen[-1][0] if len(seen) == limit else None), [each for each in checked if isinstance(each, Damage)]
