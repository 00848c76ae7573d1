"""What the outbox does to its tables, one function a verb; each runs inside one transaction of the writer."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import apsw

from fairlead_edge.checksum import of_row
from fairlead_edge.errors import KeyReused, NotOurs, StoreFull
from fairlead_edge.io.outbox import queries
from fairlead_edge.io.outbox import segment as segment_io
from fairlead_edge.io.outbox.queries import FOR_CHECKING, WITH_RUNS, rows
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.age import Stamp
from fairlead_edge.outbox.checkpoint import NOTHING_DONE
from fairlead_edge.outbox.checksum import of_reference, of_run
from fairlead_edge.outbox.gaps import Damage
from fairlead_edge.outbox.in_flight import InFlight
from fairlead_edge.outbox.queue_id import QueueId

UNUSED_PAGES_MIN: Final = 4096
"""16 MiB: less than this is kept for the next outage."""
GIVE_BACK_PAGES: Final = 1024

# ---- append --------------------------------------------------------------------------------------------------------


class Eviction(NamedTuple):
    """What may not be evicted, and what was."""

    in_flight: InFlight
    evicted: list[tuple[QueueId, list[int]]]


class _Placed(NamedTuple):
    """One reference: where its body lies, and what its route said."""

    segment: int
    start: int
    size: int
    reference: outbox.Reference
    body: bytes


def append(
    connection: apsw.Connection,
    entries: Sequence[outbox.Entry],
    *,
    epoch: int,
    now: float,
    max_bytes: int,
    once: outbox.Once | None,
    eviction: Eviction | None = None,
) -> bytes | None:
    """See ``outbox.Outbox.append``; with an ``eviction`` the less urgent may have to go."""
    if once is not None:
        known = rows(connection, "SELECT digest, answer, at, checksum FROM receipts WHERE key = ?", (once.key,))
        if known:
            digest, answer, at, expected = known[0]
            if of_row(once.key, digest, answer, at) != expected:
                return once.answer  # damaged: the key did come before, and storing the request again would double it
            if digest != once.digest:
                raise KeyReused(once.key)
            return bytes(answer)
        receipt = (once.key, once.digest, once.answer, float(now))
        connection.execute("INSERT INTO receipts VALUES(?, ?, ?, ?, ?)", (*receipt, of_row(*receipt)))
    if not entries:
        return None
    _take_room(connection, entries, max_bytes, eviction)
    logs: dict[QueueId, list[_Placed]] = defaultdict(list)
    for entry, (segment, start) in zip(entries, _store_bodies(connection, entries), strict=True):
        for reference in entry.references:
            logs[reference.queue].append(_Placed(segment, start, len(entry.content), reference, entry.content))
    for queue, log in logs.items():
        _append_log(connection, queue, log, epoch, now)
    return None


_NEXT_SEGMENT: Final = (
    "SELECT 1 + max(coalesce((SELECT max(id) FROM segments), 0), coalesce((SELECT max(segment) FROM runs), 0))"
)
"""Above all that are named: where a disk lost bodies, their envelopes may still be there."""


def _store_bodies(connection: apsw.Connection, entries: Sequence[outbox.Entry]) -> list[tuple[int, int]]:
    """Where each body lies: (segment, start)."""
    places = [(0, 0)] * len(entries)
    packed: list[tuple[int, int, str, bytes]] = []
    first: int = rows(connection, _NEXT_SEGMENT)[0][0]
    for segment, indexes in enumerate(outbox.segments(entries), first):
        start = 0
        for index in indexes:
            places[index] = (segment, start)
            start += len(entries[index].content)
        packed.append((segment, start, *segment_io.pack(b"".join([entries[index].content for index in indexes]))))
    connection.executemany("INSERT INTO segments VALUES(?, ?, ?, ?)", packed)
    return places


def _take_room(
    connection: apsw.Connection, entries: Sequence[outbox.Entry], max_bytes: int, eviction: Eviction | None
) -> None:
    wanted = outbox.cost(entries)
    used = rows(connection, "UPDATE usage SET bytes = bytes + ? RETURNING bytes", (wanted,))[0][0]
    if used > max_bytes and eviction is not None:
        used -= _evict(connection, outbox.least_urgent(entries), used - max_bytes, eviction)
    if used > max_bytes:  # what was evicted in vain comes back with the rest of this job
        raise StoreFull(f"the store holds {used - wanted} of {max_bytes} bytes, {wanted} more do not fit")


def _evict(connection: apsw.Connection, spared: int, excess: int, eviction: Eviction) -> int:
    """Oldest first from the least urgent queue on, until ``excess`` bytes are free; returns the bytes freed."""
    freed = 0
    eviction.evicted.clear()  # a job may run twice
    for number, endpoint, priority in rows(
        connection,
        "SELECT id, endpoint, priority FROM queues WHERE priority > ? ORDER BY priority DESC, endpoint",
        (spared,),
    ):
        queue = QueueId(endpoint, priority)
        after = NOTHING_DONE
        while freed < excess:
            oldest = rows(
                connection,
                "SELECT offset FROM references_ WHERE queue = ? AND offset > ? ORDER BY offset LIMIT ?",
                (number, after, outbox.EVICT_ROWS),
            )
            if not oldest:
                break
            after = oldest[-1][0]
            going = eviction.in_flight.spare(queue, [offset for (offset,) in oldest])
            before = rows(connection, "SELECT bytes FROM usage")[0][0]
            evicted = remove(connection, number, going)
            connection.execute("UPDATE queues SET evicted = evicted + ? WHERE id = ?", (evicted, number))
            freed += before - rows(connection, "SELECT bytes FROM usage")[0][0]
            eviction.evicted.append((queue, going))
    return freed


def _append_log(connection: apsw.Connection, queue: QueueId, log: list[_Placed], epoch: int, now: float) -> None:
    """Offsets, counters, references and runs of one queue."""
    [(number, first)] = rows(
        connection,
        "INSERT INTO queues(endpoint, priority, next_offset, stored, bytes, accepted) VALUES(?1, ?2, ?3, ?3, ?4, ?3)"
        " ON CONFLICT(endpoint, priority) DO UPDATE SET next_offset = next_offset + ?3, stored = stored + ?3,"
        " bytes = bytes + ?4, accepted = accepted + ?3 RETURNING id, next_offset - ?3",
        (queue.endpoint, queue.priority, len(log), sum(placed.size for placed in log)),
    )
    runs: dict[int, list[tuple[int, _Placed]]] = defaultdict(list)
    for offset, placed in enumerate(log, first):
        runs[placed.segment].append((offset, placed))
    for segment, run in runs.items():
        row = _run(number, segment, run, epoch, now)
        sealed = _checksum_of(queue, row)
        connection.execute("INSERT INTO runs VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, sealed))
        connection.executemany(
            "INSERT INTO references_ VALUES(?, ?, ?, ?, ?, ?)",
            [
                (number, offset, segment, each.start, each.size, of_reference(sealed, offset, each.body))
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


def _checksum_of(queue: QueueId, run: _Run) -> int:
    _, _, first, last, _, _, epoch, enqueued, expires, topic = run
    return of_run(queue, first=first, last=last, epoch=epoch, enqueued=enqueued, expires=expires, topic=topic)


# ---- settle and sweep ----------------------------------------------------------------------------------------------


def settle(
    connection: apsw.Connection,
    queue: QueueId,
    *,
    sent: Sequence[int],
    refused: Sequence[outbox.Refusal],
    checkpoint: int,
    at: str,
) -> list[Damage]:
    """See ``outbox.Outbox.settle``; returns what was refused and is found damaged, which stays where it is."""
    found = rows(
        connection, "SELECT id FROM queues WHERE endpoint = ? AND priority = ?", (queue.endpoint, queue.priority)
    )
    if not found:
        return []
    number: int = found[0][0]
    damaged = _bury(connection, number, queue, refused, at)
    removed = remove(connection, number, sent)
    connection.execute(
        "UPDATE queues SET sent = sent + ?, checkpoint = max(checkpoint, min(?, next_offset - 1)) WHERE id = ?",
        (removed, checkpoint, number),
    )
    return damaged


def _bury(
    connection: apsw.Connection, number: int, queue: QueueId, refused: Sequence[outbox.Refusal], at: str
) -> list[Damage]:
    read = queries.Bodies(connection)
    damaged: list[Damage] = []
    for refusal in refused:
        # Otherwise it is not there any more, and ended elsewhere.
        for row in rows(
            connection,
            f"SELECT {FOR_CHECKING} FROM {WITH_RUNS} WHERE r.queue = ? AND r.offset = ?",
            (number, refusal.offset),
        ):
            item = read.checked(queue, row)
            if isinstance(item, Damage):
                damaged.append(item)
                continue
            ttl = None if item.expires is None else item.expires - item.enqueued
            letter = (number, refusal.offset, item.epoch, ttl, item.topic, at, refusal.code, refusal.reason)
            put_letter(connection, letter, item.content)
    left = {each.offset for each in damaged}
    remove(connection, number, [refusal.offset for refusal in refused if refusal.offset not in left])
    return damaged


def put_letter(connection: apsw.Connection, fields: tuple[Any, ...], content: bytes) -> None:
    """``fields``: queue, offset, epoch, ttl, topic, at, code, reason."""
    connection.execute(
        "INSERT INTO dead_letters(queue, offset, epoch, ttl, topic, at, code, reason, content, checksum)"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*fields, content, queries.sealed_letter(fields, content)),
    )
    connection.execute("UPDATE usage SET bytes = bytes + ?", (len(content) + outbox.REFERENCE_BYTES,))


def remove(connection: apsw.Connection, queue: int, offsets: Sequence[int]) -> int:
    """Take references out of one queue, with the runs and segments that end by it; returns how many were there."""
    if not offsets:
        return 0
    removed = rows(
        connection,
        "DELETE FROM references_ WHERE queue = ? AND offset IN (SELECT value FROM json_each(?))"
        " RETURNING segment, CAST(size AS INTEGER)",
        (queue, json.dumps(list(offsets))),
    )
    if not removed:
        return 0
    sizes: dict[int, list[int]] = defaultdict(list)
    for segment, size in removed:
        sizes[segment].append(size)
    connection.execute(
        "UPDATE queues SET stored = stored - ?, bytes = bytes - ? WHERE id = ?",
        (len(removed), sum(size for _, size in removed), queue),
    )
    freed = len(removed) * outbox.REFERENCE_BYTES + _end_runs(connection, queue, sizes)
    connection.execute("UPDATE usage SET bytes = bytes - ?", (freed,))
    return len(removed)


def _end_runs(connection: apsw.Connection, queue: int, sizes: dict[int, list[int]]) -> int:
    """Lower the counts of the runs these references belonged to; returns the bytes of segments that end with them."""
    ended: list[int] = []
    for segment, count in rows(
        connection,
        "SELECT segment, count FROM runs WHERE queue = ? AND segment IN (SELECT value FROM json_each(?))",
        (queue, json.dumps([segment for segment in sizes if isinstance(segment, int)])),
    ):
        gone = sizes[segment]
        if count == len(gone):
            ended.append(segment)
        else:
            connection.execute(
                "UPDATE runs SET count = count - ?, bytes = bytes - ? WHERE segment = ? AND queue = ?",
                (len(gone), sum(gone), segment, queue),
            )
    if not ended:
        return 0
    connection.execute(
        "DELETE FROM runs WHERE queue = ? AND segment IN (SELECT value FROM json_each(?))", (queue, json.dumps(ended))
    )
    released = rows(
        connection,
        "DELETE FROM segments WHERE id IN (SELECT value FROM json_each(?))"
        " AND NOT EXISTS (SELECT 1 FROM runs WHERE segment = id) RETURNING CAST(size AS INTEGER)",
        (json.dumps(ended),),
    )
    return sum(size for (size,) in released)


def sweep(
    connection: apsw.Connection, *, now: float, entire: bool, in_flight: InFlight
) -> list[tuple[QueueId, list[int]]]:
    """See ``outbox.Outbox.sweep``; returns what went.  Keys that may be forgotten go in the same step."""
    connection.execute("DELETE FROM receipts WHERE at < ?", (now - outbox.RECEIPT_SECONDS,))
    connection.execute(
        "DELETE FROM receipts WHERE at < (SELECT at FROM receipts ORDER BY at DESC LIMIT 1 OFFSET ?)",
        (outbox.RECEIPTS_MAX,),
    )
    found = _expired_anywhere if entire else _expired_at_heads
    swept: list[tuple[QueueId, list[int]]] = []
    for (number, queue), offsets in found(connection, now, in_flight).items():
        removed = remove(connection, number, offsets)
        connection.execute("UPDATE queues SET expired = expired + ? WHERE id = ?", (removed, number))
        if removed:
            swept.append((queue, offsets))
    return swept


_ENVELOPE: Final = "u.first, u.last, u.epoch, u.enqueued, u.expires, CAST(u.topic AS BLOB), u.checksum"


def _is_over(queue: QueueId, envelope: Sequence[Any], now: float) -> bool:
    """Did its time to live end?  What a damaged envelope says of it is not believed; a scrub sets such aside."""
    first, last, epoch, enqueued, expires, topic, expected = envelope
    made = queries.sealed(queue, first, last, epoch, enqueued, expires, queries.text(topic))
    sound = expected is not None and made == expected
    return sound and expires is not None and expires <= now


_Expired = dict[tuple[int, QueueId], list[int]]
"""Offsets by number and name of their queue."""


def _expired_anywhere(connection: apsw.Connection, now: float, in_flight: InFlight) -> _Expired:
    """By the expiry index, run by run."""
    found: _Expired = defaultdict(list)
    left = outbox.SWEEP_ROWS
    for number, endpoint, priority, segment, *envelope in rows(
        connection,
        f"SELECT q.id, q.endpoint, q.priority, x.segment, {_ENVELOPE} FROM runs x INDEXED BY runs_by_expiry"
        " CROSS JOIN runs u NOT INDEXED ON u.segment = x.segment AND u.queue = x.queue"
        " CROSS JOIN queues q ON q.id = x.queue WHERE x.expires <= ? LIMIT ?",
        (now, outbox.SWEEP_ROWS),
    ):
        if not _is_over(QueueId(endpoint, priority), envelope, now):
            continue
        offsets = rows(
            connection,
            "SELECT offset FROM references_ WHERE queue = ? AND offset BETWEEN ? AND ? AND segment = ? LIMIT ?",
            (number, *envelope[:2], segment, left),
        )
        queue = QueueId(endpoint, priority)
        going = in_flight.spare(queue, [offset for (offset,) in offsets])
        if going:
            found[number, queue] += going
        left -= len(going)
        if left <= 0:
            break
    return found or _expired_at_heads(connection, now, in_flight)


def _expired_at_heads(connection: apsw.Connection, now: float, in_flight: InFlight) -> _Expired:
    """From the oldest on until the first live one; what the checkpoint has passed was expired when it passed."""
    found: _Expired = {}
    left = outbox.SWEEP_ROWS
    for number, endpoint, priority, checkpoint in rows(
        connection, "SELECT id, endpoint, priority, checkpoint FROM queues WHERE stored > 0"
    ):
        offsets: list[int] = []
        queue = QueueId(endpoint, priority)
        out = in_flight.of(queue)
        row: Any
        for row in connection.execute(  # lazily: mostly the first one is live
            f"SELECT r.offset, {_ENVELOPE} FROM {WITH_RUNS} WHERE r.queue = ? ORDER BY r.offset LIMIT ?",
            (number, left),
        ):
            offset, *envelope = row
            if offset in out:
                continue
            if offset > checkpoint and not _is_over(queue, envelope, now):
                break
            offsets.append(offset)
        found[number, queue] = offsets
        left -= len(offsets)
    return found


def give_back(connection: apsw.Connection) -> int:
    """See ``outbox.Outbox.give_back``: moving pages wears the disk too, so only when most of the file is unused."""
    [(unused,)] = rows(connection, "PRAGMA freelist_count")
    [(pages,)] = rows(connection, "PRAGMA page_count")
    if unused < UNUSED_PAGES_MIN or 2 * unused < pages:
        return 0
    rows(connection, f"PRAGMA incremental_vacuum({GIVE_BACK_PAGES})")
    [(left,)] = rows(connection, "PRAGMA page_count")
    [(page_bytes,)] = rows(connection, "PRAGMA page_size")
    given: int = (pages - left) * page_bytes
    return given


# ---- dead letters --------------------------------------------------------------------------------------------------


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
        letters, _ = queries.dead_letters(connection, after=0, limit=limit)
    else:
        letters, _ = queries.select_dead(
            connection,
            "d.number IN (SELECT value FROM json_each(?)) ORDER BY d.number LIMIT ?",
            (json.dumps(list(numbers)), limit),
        )
    if not letters:
        return 0
    connection.execute(
        "DELETE FROM dead_letters WHERE number IN (SELECT value FROM json_each(?))",
        (json.dumps([letter.number for letter in letters]),),
    )
    freed = sum(len(letter.content) + outbox.REFERENCE_BYTES for letter in letters)
    connection.execute("UPDATE usage SET bytes = bytes - ?", (freed,))
    entries = [outbox.replayed(letter) for letter in letters]
    append(connection, entries, epoch=epoch, now=now, max_bytes=max_bytes, once=None)
    for queue, count in Counter(letter.queue for letter in letters).items():
        connection.execute(
            "UPDATE queues SET accepted = accepted - ? WHERE endpoint = ? AND priority = ?",
            (count, queue.endpoint, queue.priority),
        )
    return len(letters)


# ---- the store's clock ---------------------------------------------------------------------------------------------


def save_stamp(connection: apsw.Connection, stamp: Stamp) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO clock VALUES(1, ?, ?, ?, ?)",
        (stamp.boot_id, stamp.boot_seconds, stamp.wall_seconds, stamp.age_seconds),
    )


def own(connection: apsw.Connection, node: str) -> None:
    """The store is this node's from now on.  Raises ``NotOurs`` while it holds what another one accepted."""
    owner = rows(connection, "SELECT node FROM owner")
    if owner == [(node,)]:
        return
    [(held,)] = rows(connection, "SELECT coalesce(sum(stored), 0) + (SELECT count(*) FROM dead_letters) FROM queues")
    if owner and held:
        raise NotOurs(owner[0][0], node, held)
    connection.execute("INSERT OR REPLACE INTO owner VALUES(1, ?)", (node,))
