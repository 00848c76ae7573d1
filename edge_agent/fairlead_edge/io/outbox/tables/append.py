"""Stores one request of a producer: its idempotency key, the space it needs, its messages, and what it evicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import apsw

from fairlead_edge.checksum import of_row
from fairlead_edge.errors import KeyReused, StoreFull
from fairlead_edge.io.outbox.tables import dead_letters, log, receipt_tables
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.queues import NOTHING_DONE, InFlight, QueueId, base, rank

# ---- eviction --------------------------------------------------------------------------------------------------------


class Eviction(NamedTuple):
    """What must not be evicted, and what was evicted."""

    in_flight: InFlight
    evicted: list[tuple[QueueId, list[int]]]
    now: float = 0.0
    """On the store's clock."""


def evict(connection: apsw.Connection, spared: int, excess: int, eviction: Eviction) -> int:
    """Evict oldest first, from the least urgent queue on, until ``excess`` bytes are free; returns the bytes freed.

    Queues of the priority ``spared`` and more urgent ones stay as they are.
    """
    freed = 0
    eviction.evicted.clear()  # the writer may run a job twice
    for number, endpoint, priority in _less_urgent(connection, spared):
        queue = QueueId(endpoint, priority)
        after = NOTHING_DONE
        while freed < excess:
            oldest = rows(connection, sql.OLDEST_OFFSETS, (number, after, outbox.EVICT_ROWS))
            if not oldest:
                break
            after = oldest[-1][0]
            going = eviction.in_flight.not_in_flight(queue, [offset for (offset,) in oldest])
            before = rows(connection, sql.USED_BYTES)[0][0]
            lost = receipt_tables.note_lost(connection, number, going, "evicted", eviction.now)
            removed = log.remove(connection, number, going)
            receipt_tables.note_departures(connection, number, lost, runs=len(removed.runs))
            connection.execute(sql.COUNT_EVICTED, (removed.messages, number))
            freed += before - rows(connection, sql.USED_BYTES)[0][0]
            eviction.evicted.append((queue, going))
    return freed


def _less_urgent(connection: apsw.Connection, spared: int) -> list[tuple[int, str, int]]:
    """Queues (number, endpoint, priority), the least urgent first; a lane is as urgent as its priority."""
    found = [each for each in rows(connection, sql.NUMBERED_QUEUES) if base(each[2]) > spared]
    return sorted(found, key=lambda each: (-rank(each[2]), each[1]))


def append_once(
    connection: apsw.Connection,
    entries: Sequence[outbox.Entry],
    *,
    epoch: int,
    now: float,
    max_bytes: int,
    idempotency: outbox.IdempotencyKey | None,
    eviction: Eviction | None = None,
) -> bytes | None:
    """See ``outbox.Outbox.append``; with an ``eviction``, less urgent messages may be removed."""
    if idempotency is not None:
        known = rows(connection, sql.KEY, (idempotency.key,))
        if known:
            digest, answer, at, expected = known[0]
            if of_row(idempotency.key, digest, answer, at) != expected:
                # Damaged: the key was used before, and storing the request again would duplicate it.
                return idempotency.answer
            if digest != idempotency.digest:
                raise KeyReused(idempotency.key)
            return bytes(answer)
        remembered = (idempotency.key, idempotency.digest, idempotency.answer, float(now))
        connection.execute(sql.INSERT_KEY, (*remembered, of_row(*remembered)))
    if entries:
        _take_room(connection, entries, max_bytes, eviction)
        log.append(connection, entries, epoch=epoch, now=now)
    return None


def replay(
    connection: apsw.Connection,
    numbers: Sequence[int] | None,
    *,
    epoch: int,
    now: float,
    max_bytes: int,
    limit: int,
) -> int:
    """See ``outbox.Outbox.replay``: replayed messages were accepted before, so ``accepted`` does not change."""
    if numbers is None:
        letters, _ = dead_letters.after(connection, after=0, limit=limit)
    else:
        letters = dead_letters.listed(connection, numbers, limit=limit)
    if not letters:
        return 0
    dead_letters.remove(connection, [letter.number for letter in letters])
    entries = [outbox.replayed(letter) for letter in letters]
    append_once(connection, entries, epoch=epoch, now=now, max_bytes=max_bytes, idempotency=None)
    for queue, count in Counter(letter.queue for letter in letters).items():
        connection.execute(sql.UNCOUNT_ACCEPTED, (count, queue.endpoint, queue.priority))
    return len(letters)


def _take_room(
    connection: apsw.Connection, entries: Sequence[outbox.Entry], max_bytes: int, eviction: Eviction | None
) -> None:
    wanted = outbox.cost(entries)
    used = rows(connection, sql.USE_BYTES, (wanted,))[0][0]
    if used > max_bytes:
        dead_letters.evict_refused(connection, excess=used - max_bytes)
        used = rows(connection, sql.USED_BYTES)[0][0]
    if used > max_bytes and eviction is not None:
        used -= evict(connection, outbox.least_urgent(entries), used - max_bytes, eviction)
    if used > max_bytes:  # the job fails, which also rolls back the evictions
        raise StoreFull(f"the store holds {used - wanted} of {max_bytes} bytes, {wanted} more do not fit")


def forget_keys(connection: apsw.Connection, *, now: float) -> None:
    """Delete idempotency keys that are too old, and the oldest if there are too many."""
    connection.execute(sql.FORGET_OLD_KEYS, (now - outbox.IDEMPOTENCY_SECONDS,))
    connection.execute(sql.FORGET_EXCESS_KEYS, (outbox.IDEMPOTENCY_KEYS_MAX,))
