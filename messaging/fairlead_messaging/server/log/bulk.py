"""Bulk reading: the ends of a topic, the division into ranges, and what has expired unread.

A bulk reader never passes the *last stable offset*: between its start and there nothing can change, so a range that is
read again after a crash holds the same messages (less what has expired).
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_messaging.api.errors import Conflict
from fairlead_messaging.api.message_id import FIRST, POSITION_BYTES, MessageId, before, id_of, last_of
from fairlead_messaging.server.log import keys, reader, running_totals
from fairlead_messaging.server.log.rows import Uncommitted
from fairlead_messaging.server.log.running_totals import RunningTotal
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.store.ordered_kv import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkRange:
    """after < id ≤ upto; ``rows`` and ``size`` (bytes) count what was stored there."""

    after: MessageId
    upto: MessageId
    rows: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkPlan:
    """What to read next: ``upto`` is the last id included, or ``after`` if there is nothing to read."""

    upto: MessageId
    rows: int
    size: int
    ranges: tuple[BulkRange, ...]


def check_generation(topic: TopicGeneration, expected: int | None) -> None:
    """Raises: Conflict if the reader began in another generation."""
    if expected is not None and expected != topic.generation:
        raise Conflict(
            f"topic {topic.namespace}/{topic.name} was deleted and created again", code="generation_changed",
            generation=topic.generation,
        )  # fmt: skip


def last_stable(snapshot: Snapshot, topic: TopicGeneration, first_uncommitted: Uncommitted | None) -> MessageId:
    """The last id up to which nothing can change: the last durable one, or just below the first uncommitted message.

    A reader that starts after an uncommitted message is not concerned by that one.
    """
    raw = snapshot.get(keys.log_end(topic))
    end = running_totals.decode_log_end(raw) if raw is not None else None
    if end is None or end.generation != topic.generation:
        return FIRST
    last = last_of(end.position.encode())
    return min(last, before(first_uncommitted.message_id)) if first_uncommitted is not None else last


def oldest(snapshot: Snapshot, topic: TopicGeneration, now_ms: int) -> MessageId:
    """The exclusive start that yields all messages that are left; FIRST if there never was one."""
    bound = reader.oldest_live(topic, now_ms)
    prefix = keys.table(keys.MESSAGE, topic)
    for key, _ in snapshot.scan(prefix + bound[:POSITION_BYTES] + b"\x00", keys.above(prefix)):
        return before(id_of(keys.position(key)))
    return max(last_expired(snapshot, topic, now_ms), FIRST)


def last_expired(snapshot: Snapshot, topic: TopicGeneration, now_ms: int) -> MessageId:
    """The id of the last row that has outlived the topic's time to live, removed or not."""
    removed = snapshot.get(keys.table(keys.REMOVED, topic))
    bound = reader.oldest_live(topic, now_ms)
    prefix = keys.table(keys.MESSAGE, topic)
    found = snapshot.last_below(prefix, prefix + bound[:POSITION_BYTES] + b"\x00")
    position = max(removed or b"", keys.position(found[0]) if found else b"")
    return last_of(position) if position else FIRST


def shown(position: MessageId) -> str:
    """The position in hex; "" for the beginning."""
    return "" if position == FIRST else position.hex()


def plan(
    snapshot: Snapshot,
    topic: TopicGeneration,
    *,
    after: MessageId,
    upto: MessageId,
    limit_rows: int,
    limit_bytes: int,
    splits: int,
    now_ms: int,
) -> BulkPlan:
    """At most ``splits`` ranges of about equal weight, together within the limits.

    ``upto`` must not lie beyond the last stable offset.  The plan has at least one row if there is one.
    """
    start = max(after, reader.oldest_live(topic, now_ms))
    end, whole = (
        running_totals.split_at(snapshot, topic, start, upto, limit_rows, limit_bytes)
        if start < upto
        else (start, RunningTotal())
    )
    if not whole.rows:
        return BulkPlan(upto=after, rows=0, size=0, ranges=())
    ranges: list[BulkRange] = []
    low = after
    share_rows, share_size = -(-whole.rows // splits), -(-whole.size // splits)
    while len(ranges) < splits - 1 and max(low, start) < end:
        high, part = running_totals.split_at(snapshot, topic, max(low, start), end, share_rows, max(share_size, 1))
        if not part.rows:
            break
        ranges.append(BulkRange(after=low, upto=high, rows=part.rows, size=part.size))
        low = high
    if low < end:
        done = RunningTotal(sum(each.rows for each in ranges), sum(each.size for each in ranges))
        rest = whole.minus(done)
        ranges.append(BulkRange(after=low, upto=end, rows=rest.rows, size=rest.size))
    return BulkPlan(upto=end, rows=whole.rows, size=whole.size, ranges=tuple(ranges))
