"""Retention: what can be removed permanently, because it can no longer be read.

    older generations      unreachable since the topic was deleted or created again
    past the topic's ttl   one range from the topic's beginning, so nothing is scanned
    past their own ttl     found by an index ordered by expiry, a bounded number in each pass
    payloads               with the reference that published them
    producers              pages that did not grow for the topic's ttl and at least 30 days

Readers never depend on this: they judge expiry themselves, and removal only frees space.

Subscriptions count messages that expire before delivery, so removal waits for them: by the topic's ttl for the slowest,
but at most ``SUBSCRIPTION_GRACE_SECONDS``; a message with its own ttl leaves an empty row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fairlead_messaging.api.message_id import (
    FIRST,
    LAST,
    POSITION_BYTES,
    MessageId,
    PositionBytes,
    position_of,
    timestamp_of,
)
from fairlead_messaging.server import producers
from fairlead_messaging.server.log import keys, reader, rows, running_totals
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.producers import RETENTION_SECONDS_MIN
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV, Snapshot
from fairlead_messaging.server.subscriptions import push_page, subscription

ROWS_MAX = 20_000
"""How many single rows a sweep of a topic examines or removes."""

COMPACT_ROWS_MIN = 10_000
"""Fewer removed rows are left to the compaction of the store itself."""

SILENT_MAX = 200
"""How many rows of idle producers one write removes, after reading each of them again."""

SUBSCRIPTION_GRACE_SECONDS = 3600
"""How long expired rows wait for subscriptions, which normally need only moments."""

OF_GENERATION = (
    keys.MESSAGE, keys.PAYLOAD, keys.PRODUCER, keys.FENCE, keys.MARK, keys.REMOVED, keys.READER, keys.EXPIRY,
    keys.REFERENCE, keys.SUBSCRIPTION,
)  # fmt: skip
"""Tables whose rows belong to one generation."""


@dataclass(slots=True, kw_only=True)
class Sweep:
    """The removals of one pass; ``emptied`` are key ranges worth compacting; ``more``: a limit was reached.

    ``silent`` are rows of idle producers to remove if they are unchanged; ``resume`` is where to continue for others.
    """

    batch: Batch = field(default_factory=Batch)
    emptied: list[tuple[bytes, bytes]] = field(default_factory=list)
    silent: list[tuple[bytes, bytes]] = field(default_factory=list)
    resume: bytes = b""
    more: bool = False


def sweep(snapshot: Snapshot, topic: TopicGeneration, now_ms: int, resume: bytes = b"") -> Sweep:
    """What to remove of one topic, existing or deleted, at ``now_ms``; ``resume`` comes from the sweep before."""
    found = Sweep()
    for letter in OF_GENERATION:
        dead = keys.dead_generations(letter, topic)
        if _remove_range(snapshot, found, *dead):
            found.emptied.append(dead)
    if topic.exists:
        needed = min((each.oldest_needed for each in subscription.of_topic(snapshot, topic).values()), default=None)
        _remove_expired(snapshot, found, topic, now_ms, needed)
        _remove_expired_messages(snapshot, found, topic, now_ms, needed)
        _find_silent_producers(snapshot, found, topic, now_ms, resume)
    return found


def _remove_range(snapshot: Snapshot, found: Sweep, low: bytes, high: bytes) -> bool:
    """Delete from the first existing row on, so that ranges of later passes do not overlap; False if there is none."""
    first = next(snapshot.scan(low, high), None)
    if first is None:
        return False
    found.batch.delete_range(first[0], high)
    return True


def _remove_expired(
    snapshot: Snapshot, found: Sweep, topic: TopicGeneration, now_ms: int, needed: MessageId | None
) -> None:
    prefix = keys.table(keys.MESSAGE, topic)
    end = reader.oldest_live(topic, now_ms)[:POSITION_BYTES] + b"\x00"
    if needed is not None:
        graced = reader.oldest_live(topic, now_ms - SUBSCRIPTION_GRACE_SECONDS * 1000)[:POSITION_BYTES] + b"\x00"
        end = min(end, max(needed[:POSITION_BYTES], graced))
    end = _end_by_references(snapshot, found, topic, end)
    last = snapshot.last_below(prefix, prefix + end)
    if last is None:
        return
    removed = keys.position(last[0])
    key = keys.table(keys.REMOVED, topic)
    # A scan from the beginning would walk over all rows that earlier passes removed.
    begin = PositionBytes(snapshot.get(key) or b"")
    if _was_written_again(removed, begin):
        # Empty rows that ``_leave_tombstone`` wrote into a range which the same pass removed: all of them at once.
        _remove_range(snapshot, found, prefix, prefix + begin + b"\x00")
        return
    found.batch.put(key, removed)
    _remove_range(snapshot, found, prefix + begin, prefix + end)
    # The total of the removed rows stays as a mark, from which counting continues.
    marks = keys.table(keys.MARK, topic)
    total = running_totals.upto(snapshot, topic, removed)
    if total.minus(running_totals.upto(snapshot, topic, begin)).rows >= COMPACT_ROWS_MIN:
        found.emptied.append((prefix, prefix + end))
    found.batch.put(marks + removed, total.encode())
    _remove_old_marks(snapshot, found, topic, marks, now_ms)
    references = keys.table(keys.REFERENCE, topic)
    for _, span in snapshot.scan(references, references + end):
        payloads = span[: -2 * POSITION_BYTES]
        first, upto = span[-2 * POSITION_BYTES : -POSITION_BYTES], span[-POSITION_BYTES:]
        found.batch.delete_range(payloads + first + b"\x00", payloads + upto + b"\x00")
    _remove_range(snapshot, found, references, references + end)


def _was_written_again(removed: PositionBytes, begin: PositionBytes) -> bool:
    return removed <= begin


def _end_by_references(snapshot: Snapshot, found: Sweep, topic: TopicGeneration, end: bytes) -> bytes:
    """The end of a pass: it takes a limited number of references, whose payloads it removes as ranges."""
    references = keys.table(keys.REFERENCE, topic)
    for count, (key, _) in enumerate(snapshot.scan(references, references + end)):
        if count >= ROWS_MAX:
            found.more = True
            return key[-POSITION_BYTES:]
    return end


def _remove_old_marks(snapshot: Snapshot, found: Sweep, topic: TopicGeneration, marks: bytes, now_ms: int) -> None:
    """Remove marks one time to live after their rows, so that a reader that was away can learn how much it missed."""
    old = reader.oldest_live(topic, now_ms - topic.ttl_seconds * 1000)[:POSITION_BYTES]
    last_old = snapshot.last_below(marks, marks + old)
    if last_old is not None:
        _remove_range(snapshot, found, marks, last_old[0])


def _remove_expired_messages(
    snapshot: Snapshot, found: Sweep, topic: TopicGeneration, now_ms: int, needed: MessageId | None
) -> None:
    index, messages = keys.table(keys.EXPIRY, topic), keys.table(keys.MESSAGE, topic)
    count, lowest, highest, last = 0, position_of(LAST), position_of(FIRST), b""
    for key, _ in snapshot.scan(index, index + now_ms.to_bytes(8, "big")):
        if count >= ROWS_MAX:
            found.more = True
            break
        position, last = keys.position(key), key
        if needed is not None and position > needed[:POSITION_BYTES]:
            expires_ms = int.from_bytes(key[len(index) : len(index) + 8], "big")
            _leave_tombstone(snapshot, found, messages + position, expires_ms)
        else:
            found.batch.delete(messages + position)
        count, lowest, highest = count + 1, min(lowest, position), max(highest, position)
    if count:
        # One range of the index instead of single keys, over which the next pass would have to walk.
        _remove_range(snapshot, found, index, last + b"\x00")
    if count >= COMPACT_ROWS_MIN:
        found.emptied += [(messages + lowest, messages + highest + b"\x00"), (index, last + b"\x00")]


def _leave_tombstone(snapshot: Snapshot, found: Sweep, key: bytes, expires_ms: int) -> None:
    """Leave an empty row if subscriptions still have to count the message; otherwise delete it."""
    raw = snapshot.get(key)
    if raw is None:
        return
    if rows.decode(raw).pointer < 0:
        found.batch.delete(key)
    else:
        ttl_seconds = (expires_ms - timestamp_of(key[-POSITION_BYTES:])) // 1000
        found.batch.put(key, push_page.tombstone(ttl_seconds))


def _find_silent_producers(
    snapshot: Snapshot, found: Sweep, topic: TopicGeneration, now_ms: int, resume: bytes
) -> None:
    prefix = keys.table(keys.PRODUCER, topic)
    silent_since = now_ms - max(topic.ttl_seconds, RETENTION_SECONDS_MIN) * 1000
    for count, (key, raw) in enumerate(snapshot.scan(max(prefix, resume), keys.above(prefix))):
        if count >= ROWS_MAX or len(found.silent) >= SILENT_MAX:
            found.resume, found.more = key, True
            return
        if producers.updated_ms(raw) < silent_since:
            found.silent.append((key, raw))


def forget_silent(kv: OrderedKV, silent: Sequence[tuple[bytes, bytes]], batch: Batch) -> None:
    """Delete rows of idle producers that are unchanged: a producer may have returned, even in this batch."""
    if not silent:
        return
    written = {key for _, key, _ in batch.operations}
    for key, raw in silent:
        if key not in written and kv.get(key) == raw:
            batch.delete(key)


# --- Whether the clock can be trusted for removals.
# Readers judge expiry by the present clock, where a wrong one does no lasting harm. Removal is permanent: after a jump
# ahead it waits, so that an operator or time synchronization can correct the clock.

JUMP_MS = 60_000
"""How much further than real time the clock may advance between two checks."""

TRUST_AGAIN_MS = 3_600_000
"""How long a clock must stay where it jumped to until it is trusted again."""


class ClockJumpGuard:
    """Compares the wall clock with a monotonic clock; both in milliseconds."""

    def __init__(self, wall_ms: int, steady_ms: int) -> None:
        self._wall_ms = wall_ms
        self._steady_ms = steady_ms
        self._jumped_at: int | None = None
        self._ahead_ms = 0

    def is_safe(self, wall_ms: int, steady_ms: int) -> bool:
        """Whether removing by ``wall_ms`` is safe."""
        drift = (wall_ms - self._wall_ms) - (steady_ms - self._steady_ms)
        self._wall_ms, self._steady_ms = wall_ms, steady_ms
        if drift > JUMP_MS:
            self._jumped_at = steady_ms
            self._ahead_ms += drift
        elif self._jumped_at is not None and drift < 0:
            self._ahead_ms += drift
        if self._jumped_at is not None and (self._ahead_ms <= JUMP_MS or steady_ms - self._jumped_at >= TRUST_AGAIN_MS):
            self._jumped_at, self._ahead_ms = None, 0
        return self._jumped_at is None
