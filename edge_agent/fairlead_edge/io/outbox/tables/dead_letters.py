"""Dead letters in their table: messages that were refused for good, kept until they are replayed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from fairlead_edge.checksum import of_row
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.append import append
from fairlead_edge.io.outbox.tables.bodies import text
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.queue_id import QueueId


class Read(NamedTuple):
    """Dead letters as they were put aside, and the numbers of those that are damaged."""

    letters: list[outbox.DeadLetter]
    damaged: list[int]


def put(connection: apsw.Connection, fields: tuple[Any, ...], content: bytes) -> None:
    """``fields``: queue, offset, epoch, ttl, topic, at, code, reason."""
    connection.execute(sql.INSERT_LETTER, (*fields, content, checksum(fields, content)))
    rows(connection, sql.USE_BYTES, (len(content) + outbox.REFERENCE_BYTES,))


def after(connection: apsw.Connection, *, after: int, limit: int) -> Read:
    """The next ones above a number."""
    return _read(rows(connection, sql.LETTERS_AFTER, (after, limit)))


def containing(connection: apsw.Connection, part: bytes, *, limit: int) -> list[outbox.DeadLetter]:
    """Those in whose messages these bytes are."""
    return _read(rows(connection, sql.LETTERS_WITH, (part, limit))).letters


def replay(
    connection: apsw.Connection,
    numbers: Sequence[int] | None,
    *,
    epoch: int,
    now: float,
    max_bytes: int,
    limit: int,
) -> int:
    """See ``outbox.Outbox.replay``: what comes back was accepted once, so the counter of accepted stays."""
    if numbers is None:
        letters, _ = after(connection, after=0, limit=limit)
    else:
        letters, _ = _read(rows(connection, sql.LETTERS_LISTED, (json.dumps(list(numbers)), limit)))
    if not letters:
        return 0
    rows(connection, sql.DELETE_LETTERS, (json.dumps([letter.number for letter in letters]),))
    freed = sum(len(letter.content) + outbox.REFERENCE_BYTES for letter in letters)
    connection.execute(sql.FREE_BYTES, (freed,))
    entries = [outbox.replayed(letter) for letter in letters]
    append(connection, entries, epoch=epoch, now=now, max_bytes=max_bytes, idempotency=None)
    for queue, count in Counter(letter.queue for letter in letters).items():
        connection.execute(sql.UNCOUNT_ACCEPTED, (count, queue.endpoint, queue.priority))
    return len(letters)


def checksum(fields: Sequence[Any], content: Any) -> int | None:
    """Of a dead letter with these columns (queue to reason); None when its content is no content."""
    return of_row(*fields, content=content) if isinstance(content, bytes) else None


def _read(found: Sequence[Any]) -> Read:
    read = Read([], [])
    for row in found:
        number, queue, offset, epoch, ttl, *texts, content, expected, endpoint, priority = row
        topic, at, code, reason = map(text, texts)
        if checksum((queue, offset, epoch, ttl, topic, at, code, reason), content) != expected:
            read.damaged.append(number)
            continue
        read.letters.append(
            outbox.DeadLetter(
                number=number,
                queue=QueueId(endpoint, priority),
                epoch=epoch,
                offset=offset,
                topic=topic,
                ttl_seconds=ttl,
                at=at,
                code=code,
                reason=reason,
                content=content,
            )
        )
    return read
