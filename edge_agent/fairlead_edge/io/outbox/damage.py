"""What the outbox does with what its disk damaged: takes it out, counts it, and tells of it in its place.

One bad message harms itself alone: it is replaced by a gap record in its queue, with the topic it was for, or by a dead
letter where there is no topic to tell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import apsw

from fairlead_edge.io.outbox import jobs, queries
from fairlead_edge.io.outbox.queries import rows
from fairlead_edge.outbox import gaps, outbox
from fairlead_edge.outbox.gaps import Damage, Gap
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
    mint: Callable[[], str],
) -> list[Gap]:
    """Take these out of the queue and count them; returns the gaps.  What is not there any more ended elsewhere.

    ``topic`` is told of those whose own is lost.
    """
    number = _number(connection, queue)
    there = {
        offset
        for (offset,) in rows(
            connection,
            "SELECT offset FROM references_ WHERE queue = ? AND offset IN (SELECT value FROM json_each(?))",
            (number, json.dumps([each.offset for each in damaged])),
        )
    }
    found = gaps.group((each for each in damaged if each.offset in there), topic=topic)
    removed = jobs.remove(connection, number, sorted(there))
    connection.execute("UPDATE queues SET damaged = damaged + ? WHERE id = ?", (removed, number))
    for gap in found:
        tell(connection, queue, gap, epoch=epoch, now=now, at=at, mint=mint)
    return found


def drop_letters(
    connection: apsw.Connection,
    numbers: Sequence[int],
    *,
    epoch: int,
    now: float,
    at: str,
    mint: Callable[[], str],
) -> int:
    """Dead letters that cannot be read: each becomes one that says so; returns how many."""
    dropped = 0
    for queue, offset in rows(
        connection,
        "DELETE FROM dead_letters WHERE number IN (SELECT value FROM json_each(?)) RETURNING queue, offset",
        (json.dumps(list(numbers)),),
    ):
        dropped += 1
        known = rows(connection, "SELECT endpoint, priority FROM queues WHERE id = ?", (queue,))
        if known:
            connection.execute("UPDATE queues SET damaged = damaged + 1 WHERE id = ?", (queue,))
            gap = Gap(offset, offset, 1, "", "a dead letter on disk is damaged")
            tell(connection, QueueId(*known[0]), gap, epoch=epoch, now=now, at=at, mint=mint)
    return dropped


def tell(
    connection: apsw.Connection,
    queue: QueueId,
    gap: Gap,
    *,
    epoch: int,
    now: float,
    at: str,
    mint: Callable[[], str],
) -> None:
    """Store the record of a gap: as the next message of its queue, or as a dead letter of it."""
    id = mint()
    content = gaps.content(queue, gap, id=id, at=at)
    if queue.endpoint == UPSTREAM and gap.topic:
        entry = outbox.Entry(id, content, (outbox.Reference(queue, None, gap.topic),))
        jobs.append(connection, [entry], epoch=epoch, now=now, max_bytes=_NO_LIMIT, once=None)
        return
    number = _number(connection, queue)
    connection.execute("UPDATE queues SET accepted = accepted + 1 WHERE id = ?", (number,))
    jobs.put_letter(connection, (number, gap.first, epoch, None, gap.topic, at, gaps.CODE, gap.reason), content)


def recount(connection: apsw.Connection) -> None:
    """Make every total again from what is there: sizes and counts may be among what was damaged.

    Walks the backlog; what no reference belongs to any more goes.
    """
    for statement in (
        "UPDATE runs SET (count, bytes) = (SELECT count(*), coalesce(sum(size), 0) FROM references_ r"
        " WHERE r.queue = runs.queue AND r.offset BETWEEN runs.first AND runs.last AND r.segment = runs.segment)",
        "DELETE FROM runs WHERE count = 0",
        "DELETE FROM segments WHERE NOT EXISTS (SELECT 1 FROM runs WHERE segment = id)",
        "UPDATE queues SET (stored, bytes) ="
        " (SELECT count(*), coalesce(sum(size), 0) FROM references_ WHERE queue = queues.id)",
        "UPDATE usage SET bytes = (SELECT coalesce(sum(size), 0) FROM segments)"
        f" + {outbox.REFERENCE_BYTES} * (SELECT count(*) FROM references_)"
        f" + (SELECT coalesce(sum(length(content) + {outbox.REFERENCE_BYTES}), 0) FROM dead_letters)",
    ):
        rows(connection, statement)


def _number(connection: apsw.Connection, queue: QueueId) -> int:
    found: list[Any] = rows(
        connection, "SELECT id FROM queues WHERE endpoint = ? AND priority = ?", (queue.endpoint, queue.priority)
    )
    return int(found[0][0]) if found else 0


def find(connection: apsw.Connection, queue: QueueId, *, after: int, limit: int) -> tuple[int | None, list[Damage]]:
    """Look at the next ``limit`` messages above ``after``, live or not; returns where to go on (None: at the end)."""
    read = queries.Bodies(connection)
    seen = rows(
        connection,
        f"SELECT {queries.FOR_CHECKING} FROM {queries.WITH_RUNS}"
        " WHERE r.queue = ? AND r.offset > ? ORDER BY r.offset LIMIT ?",
        (_number(connection, queue), after, limit),
    )
    checked = [read.checked(queue, row) for row in seen]
    return (seen[-1][0] if len(seen) == limit else None), [each for each in checked if isinstance(each, Damage)]
