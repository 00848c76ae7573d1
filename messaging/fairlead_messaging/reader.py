"""Reading a topic: a page of messages from a snapshot, and where the next page starts.

Every start is turned into one exclusive 20-byte id, so a start inside a payload list, right before a
reference, or on an expired row needs no special case and can lose nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fairlead_messaging import keys, rows
from fairlead_messaging.kv import Snapshot
from fairlead_messaging.message_id import LAST, NO_PAYLOAD, POSITION_BYTES, before_time, timestamp_of
from fairlead_messaging.topic import Topic
from fairlead_messaging.visibility import Decide, Decision

SKIPPED_ROWS_MAX = 50_000
"""Rows passed over without showing any before a page ends early, so that one poll is bounded work."""

PAYLOAD_END = LAST[POSITION_BYTES:]


@dataclass(slots=True, kw_only=True)
class Page:
    """Messages as two columns; ``next_position`` is the exclusive start of the next page.

    ``complete`` says that the scan reached the end, or the first undecided row, and not a limit.
    """

    ids: list[bytes] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    next_position: bytes
    size: int = 0
    complete: bool = False
    plain: bool = True
    """Whether every row passed was a message without transaction and without a ttl of its own."""


def oldest_live(topic: Topic, now_ms: int) -> bytes:
    """The exclusive start below which everything has outlived the topic's time to live."""
    return before_time(max(0, now_ms - topic.ttl_seconds * 1000))


def read(
    snapshot: Snapshot,
    topic: Topic,
    *,
    after: bytes,
    upto: bytes = LAST,
    limit: int,
    bytes_max: int,
    now_ms: int,
    decide: Decide | None = None,
) -> Page:
    """Messages with after < id ≤ upto that are alive at ``now_ms`` (milliseconds), oldest first.

    Without ``decide`` everything is shown, rolled-back rows too (the seed's non-transactional reader).
    A page holds at most ``limit`` messages and ends once ``bytes_max`` payload bytes are reached.
    """
    after = max(after, oldest_live(topic, now_ms))
    page = Page(next_position=after)
    ids, payloads = page.ids, page.payloads
    prefix = keys.table(keys.MESSAGE, topic)
    skipped = size = 0
    decision = Decision.ACCEPT
    for key, value in snapshot.scan(prefix + after[:POSITION_BYTES], prefix + upto[:POSITION_BYTES] + b"\x00"):
        if value[0] == 0:  # a plain message, by far the most: this branch decides how fast reading is
            message_id = key[-POSITION_BYTES:] + NO_PAYLOAD
            if message_id <= after:
                continue
            ids.append(message_id)
            payloads.append(value[1:])
            size += len(value) - 1
        else:
            page.plain = False
            skipped += 1
            position, row = key[-POSITION_BYTES:], rows.decode(value)
            decision = decide(row.pointer) if row.pointer and decide is not None else Decision.ACCEPT
            if decision is Decision.HOLD:
                break
            page.next_position = max(page.next_position, ids[-1] if ids else after)
            if decision is Decision.SKIP or _is_expired(position, row.ttl_seconds, now_ms):
                page.next_position = _past(position, page, upto)
            elif row.is_reference:
                page.size = size
                _read_payloads(snapshot, topic, position, row, page, after, upto, limit, bytes_max, now_ms)
                size = page.size
            elif position + NO_PAYLOAD > after:
                ids.append(position + NO_PAYLOAD)
                payloads.append(row.payload)
                size += len(row.payload)
        if len(ids) >= limit or size >= bytes_max or skipped >= SKIPPED_ROWS_MAX:
            break
    else:
        page.complete = True
    if decision is Decision.HOLD:
        page.complete = True
    page.size = size
    if ids:
        page.next_position = max(page.next_position, ids[-1])
    return page


def _past(position: bytes, page: Page, upto: bytes) -> bytes:
    """The position after everything of one row, never beyond what was asked for."""
    return min(max(page.next_position, position + PAYLOAD_END), upto)


def _is_expired(position: bytes, ttl_seconds: int, now_ms: int) -> bool:
    return ttl_seconds > 0 and now_ms > timestamp_of(position) + ttl_seconds * 1000


def _read_payloads(
    snapshot: Snapshot,
    topic: Topic,
    position: bytes,
    row: rows.Row,
    page: Page,
    after: bytes,
    upto: bytes,
    limit: int,
    bytes_max: int,
    now_ms: int,
) -> None:
    """The payload rows a reference stands for, from where the reader stopped last time."""
    first, last = row.payload[:POSITION_BYTES], row.payload[POSITION_BYTES:]
    if position == after[:POSITION_BYTES]:
        first = max(first, after[POSITION_BYTES:])
    if position == upto[:POSITION_BYTES]:
        last = min(last, upto[POSITION_BYTES:])
    prefix = keys.payloads(topic, abs(row.pointer))
    if first < last:
        for key, value in snapshot.scan(prefix + first + b"\x00", prefix + last + b"\x00"):
            stored = rows.decode(value)
            message_id = position + key[-POSITION_BYTES:]
            page.next_position = message_id
            if _is_expired(position, stored.ttl_seconds, now_ms):
                continue
            page.ids.append(message_id)
            page.payloads.append(stored.payload)
            page.size += len(stored.payload)
            if len(page.ids) >= limit or page.size >= bytes_max:
                return
    page.next_position = _past(position, page, upto)
