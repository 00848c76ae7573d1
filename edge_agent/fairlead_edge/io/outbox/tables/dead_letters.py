"""The table of dead letters: messages that were refused permanently, kept until they are replayed or discarded.

Those of refused input (``queues.is_refused_input``) were never accepted: their share of the store and their age are
limited.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from fairlead_edge.checksum import of_row
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.bodies import text
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.queues import QueueId, is_refused_input


class ReadLetters(NamedTuple):
    """Dead letters as they were stored, and the numbers of damaged ones."""

    letters: list[outbox.DeadLetter]
    damaged: list[int]


def put(connection: apsw.Connection, fields: tuple[Any, ...], content: bytes) -> None:
    """``fields``: queue, offset, epoch, ttl, topic, at, code, reason."""
    connection.execute(sql.INSERT_LETTER, (*fields, content, checksum(fields, content)))
    rows(connection, sql.USE_BYTES, (outbox.letter_cost(len(content)),))


def remove(connection: apsw.Connection, numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Delete these and free their space; returns queue and offset of each that existed."""
    found = rows(connection, sql.DELETE_LETTERS, (json.dumps(list(numbers)),))
    connection.execute(sql.FREE_BYTES, (sum(outbox.letter_cost(size) for _, _, size in found),))
    return [(queue, offset) for queue, offset, _ in found]


def discard(connection: apsw.Connection, numbers: Sequence[int]) -> int:
    """See ``outbox.Outbox.discard``."""
    return _count_removed(connection, numbers, sql.COUNT_EVICTED)


def date_refused(connection: apsw.Connection, now: float) -> None:
    """Date refused input that has no date yet: ``now``, on the store's clock."""
    for queue in _refused_queues(connection):
        connection.execute(sql.DATE_LETTERS, (now, queue))


def expire_refused(connection: apsw.Connection, *, before: float) -> int:
    """Delete refused input dated ``before`` or earlier, and count it as expired; returns how many."""
    old = [number for (number,) in rows(connection, sql.OLD_LETTERS, (before,))]
    connection.execute(sql.FORGET_DATES)
    return _count_removed(connection, old, sql.COUNT_EXPIRED)


def evict_refused(connection: apsw.Connection, *, bytes_max: int = sys.maxsize, excess: int = 0) -> int:
    """Evict the oldest refused input until the rest fits its share and ``excess`` bytes are free; returns how many."""
    found = [
        (number, outbox.letter_cost(size))
        for queue in _refused_queues(connection)
        for number, size in rows(connection, sql.SIZES_OF_LETTERS, (queue,))
    ]
    found.sort()
    count = outbox.refused_to_evict([cost for _, cost in found], bytes_max=bytes_max, excess=excess)
    return _count_removed(connection, [number for number, _ in found[:count]], sql.COUNT_EVICTED)


def refused_input(connection: apsw.Connection) -> tuple[int, int]:
    """The number of dead letters of refused input, and their bytes."""
    found = [rows(connection, sql.COUNT_LETTERS, (queue,))[0] for queue in _refused_queues(connection)]
    count = sum(count for count, _ in found)
    return count, sum(size for _, size in found) + count * outbox.letter_cost(0)


def _refused_queues(connection: apsw.Connection) -> list[int]:
    queues = rows(connection, sql.NUMBERED_QUEUES)
    return [number for number, endpoint, _ in queues if is_refused_input(endpoint)]


def _count_removed(connection: apsw.Connection, numbers: Sequence[int], counter: str) -> int:
    if not numbers:
        return 0
    removed = Counter(queue for queue, _ in remove(connection, numbers))
    connection.executemany(counter, [(count, queue) for queue, count in removed.items()])
    return removed.total()


def after(connection: apsw.Connection, *, after: int, limit: int) -> ReadLetters:
    """The next dead letters above a number."""
    return _read(rows(connection, sql.LETTERS_AFTER, (after, limit)))


def containing(connection: apsw.Connection, part: bytes, *, limit: int) -> list[outbox.DeadLetter]:
    """Dead letters whose messages contain these bytes."""
    return _read(rows(connection, sql.LETTERS_WITH, (part, limit))).letters


def listed(connection: apsw.Connection, numbers: Sequence[int], *, limit: int) -> list[outbox.DeadLetter]:
    """Those of the numbered dead letters that exist."""
    return _read(rows(connection, sql.LETTERS_LISTED, (json.dumps(list(numbers)), limit))).letters


def checksum(fields: Sequence[Any], content: Any) -> int | None:
    """The checksum of a dead letter with these columns (queue to reason); None if its content is not bytes."""
    return of_row(*fields, content=content) if isinstance(content, bytes) else None


def _read(found: Sequence[Any]) -> ReadLetters:
    read = ReadLetters([], [])
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
