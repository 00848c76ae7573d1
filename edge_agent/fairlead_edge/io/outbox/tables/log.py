"""The logs in the tables: what is appended to a queue, read from it, and removed from it.

entry ─▶ segment (bodies, end to end) ◀─ run (what its references share) ◀─ reference (one place in one queue)
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import apsw

from fairlead_edge.io.outbox.tables import bodies as segment_io
from fairlead_edge.io.outbox.tables import receipt_tables
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.bodies import Bodies
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.envelope import expiry_checksum, reference_checksum, run_checksum
from fairlead_edge.outbox.gaps import Damage
from fairlead_edge.outbox.queues import NOTHING_DONE, QueueId
from fairlead_edge.outbox.receipts import marks

HANDED_OUT_MAX: Final = 10_000
"""How many messages of a queue are remembered as sent before a restart; the hub's window is far smaller."""

# ---- read ----------------------------------------------------------------------------------------------------------


class FetchedMessages(NamedTuple):
    """The result of a fetch: intact messages, and damaged ones."""

    items: list[outbox.Item]
    damaged: list[Damage]


def queues(connection: apsw.Connection) -> list[QueueId]:
    """All queues."""
    return [QueueId(endpoint, priority) for endpoint, priority in rows(connection, sql.QUEUES)]


def number_of(connection: apsw.Connection, queue: QueueId) -> int | None:
    """The number of the queue in the tables; None if nothing was ever stored in it."""
    found = rows(connection, sql.QUEUE_BY_NAME, (queue.endpoint, queue.priority))
    return found[0][0] if found else None


def checkpoint(connection: apsw.Connection, queue: QueueId) -> int | None:
    """The checkpoint of the queue; None if nothing was ever stored in it."""
    found = rows(connection, sql.QUEUE_BY_NAME, (queue.endpoint, queue.priority))
    return found[0][1] if found else None


def fetch(
    connection: apsw.Connection,
    queue: QueueId,
    *,
    after: int,
    now: float,
    messages_max: int,
    bytes_max: int,
    only: Collection[int] | None = None,
) -> FetchedMessages:
    """See ``outbox.Outbox.fetch``; runs of expired references are skipped without reading their bodies."""
    found = FetchedMessages([], [])
    known = rows(connection, sql.QUEUE_BY_NAME, (queue.endpoint, queue.priority))
    if not known:
        return found
    number, done = known[0]
    read = Bodies(connection)
    room = bytes_max
    row: Any
    if only is None:
        found_rows = connection.execute(sql.LIVE_MESSAGES, (number, max(after, done), now, messages_max))
    else:
        listed = json.dumps(list(only))
        found_rows = connection.execute(sql.LISTED_MESSAGES, (number, max(after, done), listed, now, messages_max))
    for row in found_rows:
        # Lazily: rows beyond bytes_max are never read.
        checked = read.checked(queue, row)
        if isinstance(checked, Damage):
            found.damaged.append(checked)
            continue
        found.items.append(checked)
        room -= len(checked.content)
        if room <= 0:
            break
    return found


def handed_out(connection: apsw.Connection, queue: QueueId, highest: int) -> tuple[int, list[int]]:
    """The last offset ever used in the queue, and the offsets up to ``highest`` that are not done."""
    number = number_of(connection, queue)
    if number is None:
        return NOTHING_DONE, []
    [(next_offset, done)] = rows(connection, sql.EXTENT_OF_QUEUE, (number,))
    present = rows(connection, sql.OLDEST_OFFSETS, (number, done, HANDED_OUT_MAX))
    return next_offset - 1, [offset for (offset,) in present if offset <= highest]


# ---- append --------------------------------------------------------------------------------------------------------


class _Placed(NamedTuple):
    """One reference: where its body is, and what its route said."""

    segment: int
    start: int
    size: int
    reference: outbox.Reference
    body: bytes
    mark: bytes


def append(connection: apsw.Connection, entries: Sequence[outbox.Entry], *, epoch: int, now: float) -> None:
    """Store each body once, and its references in their queues."""
    logs: dict[QueueId, list[_Placed]] = defaultdict(list)
    for entry, (segment, start) in zip(entries, _store_bodies(connection, entries), strict=True):
        named = entry.mark or marks.of(entry.content)
        for reference in entry.references:
            logs[reference.queue].append(_Placed(segment, start, len(entry.content), reference, entry.content, named))
    for queue, log in logs.items():
        _extend(connection, queue, log, epoch, now)


def _store_bodies(connection: apsw.Connection, entries: Sequence[outbox.Entry]) -> list[tuple[int, int]]:
    """Store the bodies; returns where each is: (segment, start)."""
    places = [(0, 0)] * len(entries)
    packed: list[tuple[int, int, str, bytes]] = []
    first: int = rows(connection, sql.NEXT_SEGMENT)[0][0]
    for segment, indexes in enumerate(outbox.segments(entries), first):
        start = 0
        for index in indexes:
            places[index] = (segment, start)
            start += len(entries[index].content)
        packed.append((segment, start, *segment_io.pack(b"".join([entries[index].content for index in indexes]))))
    connection.executemany(sql.INSERT_SEGMENT, packed)
    return places


def _extend(connection: apsw.Connection, queue: QueueId, log: list[_Placed], epoch: int, now: float) -> None:
    """Append to one queue: offsets, counters, references and runs."""
    [(number, first)] = rows(
        connection,
        sql.EXTEND_QUEUE,
        (queue.endpoint, queue.priority, len(log), sum(placed.size for placed in log)),
    )
    runs: dict[int, list[tuple[int, _Placed]]] = defaultdict(list)
    for offset, placed in enumerate(log, first):
        runs[placed.segment].append((offset, placed))
    for segment, run in runs.items():
        row = _run(number, segment, run, epoch, now)
        inherits = run[0][1].reference.inherits or None
        sealed = _checksum_of(queue, row, inherits)
        expiry = None if inherits is None else expiry_checksum(sealed, row[8])
        connection.execute(sql.INSERT_RUN, (*row, sealed, inherits, expiry))
        receipt_tables.keep_names(
            connection, number, epoch, now, [offset for offset, _ in run], [each.mark for _, each in run]
        )
        connection.executemany(
            sql.INSERT_REFERENCE,
            [
                (number, offset, segment, each.start, each.size, reference_checksum(sealed, offset, each.body))
                for offset, each in run
            ],
        )


_Run = tuple[int, int, int, int, int, int, int, float, float | None, str]
"""Segment, queue, first, last, count, bytes, epoch, enqueued, expires, topic."""


def _run(queue: int, segment: int, run: list[tuple[int, _Placed]], epoch: int, now: float) -> _Run:
    first, placed = run[0]
    ttl = placed.reference.ttl_seconds
    expires = None if ttl is None else now + ttl
    size = sum(each.size for _, each in run)
    return (segment, queue, first, run[-1][0], len(run), size, epoch, now, expires, placed.reference.topic)


def _checksum_of(queue: QueueId, run: _Run, inherits: str | None) -> int:
    _, _, first, last, _, _, epoch, enqueued, expires, topic = run
    return run_checksum(
        queue,
        first=first,
        last=last,
        epoch=epoch,
        enqueued=enqueued,
        expires=expires,
        topic=topic,
        inherits=inherits,
    )


# ---- remove --------------------------------------------------------------------------------------------------------


class RemovedRuns(NamedTuple):
    """The number of messages removed, and the range of each run that ended with them."""

    messages: int = 0
    runs: Sequence[tuple[int, int]] = ()


def remove(connection: apsw.Connection, queue: int, offsets: Sequence[int]) -> RemovedRuns:
    """Remove references from one queue, and the runs and segments that end with them; names stay
    (``receipt_tables``)."""
    if not offsets:
        return RemovedRuns()
    first, last = min(offsets), max(offsets)
    if last - first == len(offsets) - 1 == len(set(offsets)) - 1:
        # Consecutive, as nearly always: two range scans are several times faster than a lookup for each message.
        place = (queue, first, last)
        runs = {segment: (count, size) for segment, count, size in rows(connection, sql.RUNS_BETWEEN, place)}
        connection.execute(sql.DELETE_REFERENCES_BETWEEN, place)
    else:
        sizes: dict[int, list[int]] = defaultdict(list)
        for segment, size in rows(connection, sql.DELETE_REFERENCES, (queue, json.dumps(list(offsets)))):
            sizes[segment].append(size)
        runs = {segment: (len(found), sum(found)) for segment, found in sizes.items()}
    if not runs:
        return RemovedRuns()
    count, size = (sum(each) for each in zip(*runs.values(), strict=True))
    if rows(connection, sql.ANY_ATTEMPT, (queue, first, last)):
        connection.execute(sql.DELETE_ATTEMPTS, (queue, json.dumps(list(offsets))))
    connection.execute(sql.SHORTEN_QUEUE, (count, size, queue))
    ended, freed = _end_runs(connection, queue, runs)
    connection.execute(sql.FREE_BYTES, (count * outbox.REFERENCE_BYTES + freed,))
    return RemovedRuns(count, ended)


def _end_runs(
    connection: apsw.Connection, queue: int, gone: dict[int, tuple[int, int]]
) -> tuple[list[tuple[int, int]], int]:
    """Subtract removed references and their bytes from their runs.

    Returns the first and last offsets of the runs that end, and the bytes of segments that end with them.
    """
    ended: list[int] = []
    places: list[tuple[int, int]] = []
    segments = json.dumps([segment for segment in gone if isinstance(segment, int)])
    for segment, left, *place in rows(connection, sql.RUN_COUNTS, (queue, segments)):
        count, size = gone[segment]
        if left == count:
            ended.append(segment)
            places.append((place[0], place[1]))
        else:
            connection.execute(sql.SHORTEN_RUN, (count, size, segment, queue))
    if not ended:
        return [], 0
    connection.execute(sql.DELETE_RUNS, (queue, json.dumps(ended)))
    released = rows(connection, sql.DELETE_SEGMENTS, (json.dumps(ended),))
    return places, sum(size for (size,) in released)
