"""What the outbox does to its tables, one function a verb; each runs inside one transaction of the writer."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence

import apsw

from fairlead_edge import outbox
from fairlead_edge.age import Stamp
from fairlead_edge.errors import KeyReused, StoreFull
from fairlead_edge.io import outbox_queries
from fairlead_edge.io.outbox_queries import rows
from fairlead_edge.queue_id import QueueId

Removed = tuple[int, int, int]
"""(queue, body, size) of a reference that was taken out."""


# ---- append --------------------------------------------------------------------------------------------------------


def append(
    connection: apsw.Connection,
    entries: Sequence[outbox.Entry],
    *,
    epoch: int,
    now: float,
    max_bytes: int,
    once: outbox.Once | None,
) -> bytes | None:
    """See ``outbox.Outbox.append``."""
    if once is not None:
        known = rows(connection, "SELECT digest, answer FROM receipts WHERE key = ?", (once.key,))
        if known:
            digest, answer = known[0]
            if digest != once.digest:
                raise KeyReused(once.key)
            return bytes(answer)
        connection.execute("INSERT INTO receipts VALUES(?, ?, ?, ?)", (once.key, once.digest, once.answer, now))
    if not entries:
        return None
    _take_room(
        connection,
        sum(len(entry.content) + outbox.REFERENCE_BYTES * len(entry.references) for entry in entries),
        max_bytes,
    )
    last_body: int = rows(connection, "SELECT coalesce(max(id), 0) FROM bodies")[0][0]
    bodies: list[tuple[int, bytes]] = []
    shares: list[tuple[int, int]] = []
    logs: dict[QueueId, list[tuple[int, int, float | None, str]]] = defaultdict(list)
    for body, entry in enumerate(entries, last_body + 1):
        bodies.append((body, entry.content))
        if len(entry.references) > 1:
            shares.append((body, len(entry.references)))
        for reference in entry.references:
            logs[reference.queue].append((body, len(entry.content), reference.ttl_seconds, reference.topic))
    connection.executemany("INSERT INTO bodies VALUES(?, ?)", bodies)
    if shares:
        connection.executemany("INSERT INTO shares VALUES(?, ?)", shares)
    for queue, log in logs.items():
        _append_references(connection, queue, log, epoch, now)
    return None


def _take_room(connection: apsw.Connection, wanted: int, max_bytes: int) -> None:
    used = rows(connection, "UPDATE usage SET bytes = bytes + ? RETURNING bytes", (wanted,))[0][0]
    if used > max_bytes:
        raise StoreFull(f"the store holds {used - wanted} of {max_bytes} bytes, {wanted} more do not fit")


def _append_references(
    connection: apsw.Connection,
    queue: QueueId,
    log: list[tuple[int, int, float | None, str]],
    epoch: int,
    now: float,
) -> None:
    # In every column the size counts, but bytes of a queue are bodies: what the link will have to carry.
    found = rows(
        connection,
        "INSERT INTO queues(endpoint, priority, next_offset, stored, bytes, accepted) VALUES(?1, ?2, ?3, ?3, ?4, ?3)"
        " ON CONFLICT(endpoint, priority) DO UPDATE SET next_offset = next_offset + ?3, stored = stored + ?3,"
        " bytes = bytes + ?4, accepted = accepted + ?3 RETURNING id, next_offset - ?3",
        (queue.endpoint, queue.priority, len(log), sum(size for _, size, _, _ in log)),
    )
    queue_number, offset = found[0]
    connection.executemany(
        "INSERT INTO references_ VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (queue_number, offset, body, size, epoch, now, None if ttl is None else now + ttl, topic)
            for offset, (body, size, ttl, topic) in enumerate(log, offset)
        ],
    )


# ---- settle and sweep ----------------------------------------------------------------------------------------------


def settle(
    connection: apsw.Connection,
    queue: QueueId,
    *,
    sent: Sequence[int],
    refused: Sequence[outbox.Refusal],
    checkpoint: int,
    at: str,
) -> None:
    """See ``outbox.Outbox.settle``."""
    found = rows(
        connection, "SELECT id FROM queues WHERE endpoint = ? AND priority = ?", (queue.endpoint, queue.priority)
    )
    if not found:
        return
    number: int = found[0][0]
    _bury(connection, number, refused, at)
    removed = _remove(connection, number, sent)
    connection.execute(
        "UPDATE queues SET sent = sent + ?, checkpoint = max(checkpoint, ?) WHERE id = ?",
        (len(removed), checkpoint, number),
    )


def _bury(connection: apsw.Connection, queue: int, refused: Sequence[outbox.Refusal], at: str) -> None:
    for refusal in refused:
        buried = rows(
            connection,
            "INSERT INTO dead_letters(queue, offset, epoch, ttl, topic, at, code, reason, content)"
            " SELECT r.queue, r.offset, r.epoch, r.expires - r.enqueued, r.topic, ?, ?, ?, b.content"
            " FROM references_ r JOIN bodies b ON b.id = r.body WHERE r.queue = ? AND r.offset = ?"
            " RETURNING length(content)",
            (at, refusal.code, refusal.reason, queue, refusal.offset),
        )
        if buried:  # otherwise it is not there any more, and ended elsewhere
            connection.execute("UPDATE usage SET bytes = bytes + ?", (buried[0][0] + outbox.REFERENCE_BYTES,))
    _remove(connection, queue, [refusal.offset for refusal in refused])


def _remove(connection: apsw.Connection, queue: int, offsets: Sequence[int]) -> list[Removed]:
    """Take references out of one queue, and bodies nobody refers to any more."""
    if not offsets:
        return []
    removed: list[Removed] = rows(
        connection,
        "DELETE FROM references_ WHERE queue = ? AND offset IN (SELECT value FROM json_each(?))"
        " RETURNING queue, body, size",
        (queue, json.dumps(list(offsets))),
    )
    _release(connection, removed)
    return removed


def _release(connection: apsw.Connection, removed: Sequence[Removed]) -> None:
    """Account for references that are gone: their queues' sizes, their bodies, the store's usage."""
    if not removed:
        return
    per_queue: dict[int, list[int]] = defaultdict(list)
    for queue, _, size in removed:
        per_queue[queue].append(size)
    for queue, sizes in per_queue.items():
        connection.execute(
            "UPDATE queues SET stored = stored - ?, bytes = bytes - ? WHERE id = ?", (len(sizes), sum(sizes), queue)
        )
    sizes_of = {body: size for _, body, size in removed}
    free = _unshared(connection, Counter(body for _, body, _ in removed))
    connection.execute("DELETE FROM bodies WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(free),))
    freed = len(removed) * outbox.REFERENCE_BYTES + sum(sizes_of[body] for body in free)
    connection.execute("UPDATE usage SET bytes = bytes - ?", (freed,))


def _unshared(connection: apsw.Connection, references_gone: Counter[int]) -> list[int]:
    """Lower the counts of shared bodies; returns the bodies without a reference."""
    shared = rows(
        connection,
        "SELECT body, count FROM shares WHERE body IN (SELECT value FROM json_each(?))",
        (json.dumps(list(references_gone)),),
    )
    kept: set[int] = set()
    for body, count in shared:
        left = count - references_gone[body]
        if left > 0:
            kept.add(body)
            connection.execute("UPDATE shares SET count = ? WHERE body = ?", (left, body))
        else:
            connection.execute("DELETE FROM shares WHERE body = ?", (body,))
    return [body for body in references_gone if body not in kept]


def sweep(connection: apsw.Connection, *, now: float, entire: bool) -> int:
    """See ``outbox.Outbox.sweep``; keys that may be forgotten go in the same step."""
    connection.execute("DELETE FROM receipts WHERE at < ?", (now - outbox.RECEIPT_SECONDS,))
    connection.execute(
        "DELETE FROM receipts WHERE at < (SELECT at FROM receipts ORDER BY at DESC LIMIT 1 OFFSET ?)",
        (outbox.RECEIPTS_MAX,),
    )
    expired = _expired_anywhere(connection, now) if entire else _expired_at_heads(connection, now)
    removed: list[Removed] = []
    for queue, offset in expired:
        removed += rows(
            connection,
            "DELETE FROM references_ WHERE queue = ? AND offset = ? RETURNING queue, body, size",
            (queue, offset),
        )
    for queue, count in Counter(queue for queue, _, _ in removed).items():
        connection.execute("UPDATE queues SET expired = expired + ? WHERE id = ?", (count, queue))
    _release(connection, removed)
    return len(removed)


def _expired_anywhere(connection: apsw.Connection, now: float) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = rows(
        connection, "SELECT queue, offset FROM references_ INDEXED BY references_by_expiry WHERE expires <= ? LIMIT ?", (now, outbox.SWEEP_ROWS)
    )
    return found or _expired_at_heads(connection, now)


def _expired_at_heads(connection: apsw.Connection, now: float) -> list[tuple[int, int]]:
    """From the oldest on until the first live one; what the checkpoint has passed was expired when it passed."""
    found: list[tuple[int, int]] = []
    for queue, checkpoint in rows(connection, "SELECT id, checkpoint FROM queues WHERE stored > 0"):
        for offset, expires in rows(
            connection,
            "SELECT offset, expires FROM references_ WHERE queue = ? ORDER BY offset LIMIT ?",
            (queue, outbox.SWEEP_ROWS - len(found)),
        ):
            if offset > checkpoint and (expires is None or expires > now):
                break
            found.append((queue, offset))
    return found


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
        letters = outbox_queries.dead_letters(connection, after=0, limit=limit)
    else:
        letters = outbox_queries.select_dead(
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
    entries = [
        outbox.Entry("", letter.content, (outbox.Reference(letter.queue, letter.ttl_seconds, letter.topic),))
        for letter in letters
    ]
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
