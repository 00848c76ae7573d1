"""One request of a producer, stored once: its idempotency key, the room it needs, its messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import apsw

from fairlead_edge.checksum import of_row
from fairlead_edge.errors import KeyReused, StoreFull
from fairlead_edge.io.outbox.tables import dead_letters, log
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.eviction import Eviction, evict
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox import outbox


def append(
    connection: apsw.Connection,
    entries: Sequence[outbox.Entry],
    *,
    epoch: int,
    now: float,
    max_bytes: int,
    idempotency: outbox.IdempotencyKey | None,
    eviction: Eviction | None = None,
) -> bytes | None:
    """See ``outbox.Outbox.append``; with an ``eviction`` the less urgent may have to go."""
    if idempotency is not None:
        known = rows(connection, sql.KEY, (idempotency.key,))
        if known:
            digest, answer, at, expected = known[0]
            if of_row(idempotency.key, digest, answer, at) != expected:
                return (
                    idempotency.answer
                )  # damaged: the key did come before, and storing the request again would double it
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
    """See ``outbox.Outbox.replay``: what comes back was accepted once, so the counter of accepted stays."""
    if numbers is None:
        letters, _ = dead_letters.after(connection, after=0, limit=limit)
    else:
        letters = dead_letters.listed(connection, numbers, limit=limit)
    if not letters:
        return 0
    dead_letters.remove(connection, [letter.number for letter in letters])
    entries = [outbox.replayed(letter) for letter in letters]
    append(connection, entries, epoch=epoch, now=now, max_bytes=max_bytes, idempotency=None)
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
    if used > max_bytes:  # what was evicted in vain comes back with the rest of this job
        raise StoreFull(f"the store holds {used - wanted} of {max_bytes} bytes, {wanted} more do not fit")


def forget_keys(connection: apsw.Connection, *, now: float) -> None:
    """Idempotency keys that are too old, and the oldest of too many."""
    connection.execute(sql.FORGET_OLD_KEYS, (now - outbox.IDEMPOTENCY_SECONDS,))
    connection.execute(sql.FORGET_EXCESS_KEYS, (outbox.IDEMPOTENCY_KEYS_MAX,))
