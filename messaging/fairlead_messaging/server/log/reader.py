"""Reading a topic: a page of messages from a snapshot, and where the next page starts.

Every start becomes an exclusive 20-byte id, so a start inside a list of payloads, right before a reference, or at an
expired row is no special case.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from fairlead_messaging.api.message_id import (
    LAST,
    NO_PAYLOAD,
    POSITION_BYTES,
    MessageId,
    PositionBytes,
    before_time,
    id_of,
    last_of,
    timestamp_of,
)
from fairlead_messaging.server.log import keys, rows
from fairlead_messaging.server.log.rows import RowState, RowStates
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.store.ordered_kv import Snapshot

LASTING_MS = 2**63 - 1
"""Later than any possible time."""
JUDGED_ROWS_MAX = 50_000
"""After how many rows with a transaction or ttl a page ends early, so that the work of a poll is bounded."""


@dataclass(slots=True, kw_only=True)
class MessagePage:
    """Messages as two columns; ``next_position`` is the exclusive start of the next page.

    ``complete``: the scan reached the end or the first uncommitted row (``blocked``), not a limit.
    ``aborted`` and ``expired`` count skipped messages: those of aborted transactions, and those past their own ttl.
    """

    ids: list[MessageId] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    next_position: MessageId
    size: int = 0
    complete: bool = False
    blocked: bool = False
    aborted: int = 0
    expired: int = 0
    judged: int = 0
    """How many rows were not plain, but had a transaction or their own ttl."""
    lasts_until_ms: int = LASTING_MS
    """When the first of its rows with an own ttl expires."""

    @property
    def plain(self) -> bool:
        """Whether only expiry by the topic's ttl, and growth, can change this page."""
        return not self.judged

    @property
    def decided(self) -> bool:
        """Whether the same holds for readers of its kind until ``lasts_until_ms``: each row is committed or aborted.

        False if it skipped expired rows: after cleaning, the page would end elsewhere.
        """
        return not self.blocked and not self.expired and self.judged < JUDGED_ROWS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    """The limits of a page: after < id ≤ upto, at most ``limit`` messages, ended by ``bytes_max`` payload bytes."""

    after: MessageId
    upto: MessageId
    limit: int
    bytes_max: int
    now_ms: int


def oldest_live(topic: TopicGeneration, now_ms: int) -> MessageId:
    """The exclusive start up to which all messages have outlived the topic's time to live."""
    return before_time(max(0, now_ms - topic.ttl_seconds * 1000))


def read(
    snapshot: Snapshot,
    topic: TopicGeneration,
    *,
    after: MessageId,
    upto: MessageId = LAST,
    limit: int,
    bytes_max: int,
    now_ms: int,
    states: RowStates | None = None,
) -> MessagePage:
    """Messages with after < id ≤ upto that have not expired at ``now_ms`` (milliseconds), oldest first.

    Without ``states`` all rows are shown, even rolled-back ones (the seed's non-transactional reader).
    A page holds at most ``limit`` messages and ends once ``bytes_max`` payload bytes are reached.
    """
    asked = ReadRange(
        after=max(after, oldest_live(topic, now_ms)), upto=upto, limit=limit, bytes_max=bytes_max, now_ms=now_ms
    )
    prefix = keys.table(keys.MESSAGE, topic)
    found = snapshot.scan(prefix + asked.after[:POSITION_BYTES], prefix + upto[:POSITION_BYTES] + b"\x00")
    return select_visible(found, snapshot, topic, asked, states)


def select_visible(
    found: Iterable[tuple[bytes, bytes]],
    snapshot: Snapshot,
    topic: TopicGeneration,
    asked: ReadRange,
    states: RowStates | None,
) -> MessagePage:
    """The page of consecutive rows of the message table; ``complete`` if it has used all of them."""
    after, limit, bytes_max = asked.after, asked.limit, asked.bytes_max
    page = MessagePage(next_position=after)
    ids, payloads = cast("list[bytes]", page.ids), page.payloads  # MessageId(…) would be a call for each
    size = 0
    for key, value in found:
        if value[0] == 0:  # a plain message, as most are: this branch determines the speed of reading
            message_id = key[-POSITION_BYTES:] + NO_PAYLOAD
            if message_id <= after:
                continue
            ids.append(message_id)
            payloads.append(value[1:])
            size += len(value) - 1
        else:
            position, row = keys.position(key), rows.decode(value)
            if not row.is_reference and position + NO_PAYLOAD <= after:
                continue  # the row at the reader's start, which concerns only readers that start before it
            state = states(row.pointer) if row.pointer and states is not None else RowState.COMMITTED
            page.judged += 1
            page.size = size
            page.next_position = max(page.next_position, MessageId(ids[-1]) if ids else after)
            if row.is_reference:
                _read_payloads(snapshot, topic, position, row, page, asked, state)
            else:
                _read_row(position, row, page, asked, state)
            size = page.size
        if page.blocked or len(ids) >= limit or size >= bytes_max or page.judged >= JUDGED_ROWS_MAX:
            break
    else:
        page.complete = True
    page.complete = page.complete or page.blocked
    page.size = size
    if ids:
        page.next_position = max(page.next_position, MessageId(ids[-1]))
    return page


def _read_row(
    position: PositionBytes, row: rows.MessageRow, page: MessagePage, asked: ReadRange, state: RowState
) -> None:
    """Show the message in the row, or count why not; an uncommitted one that has not expired blocks the page."""
    _note_expiry(position, row.ttl_seconds, page)
    if state is RowState.ABORTED:
        page.aborted += 1
    elif is_expired(position, row.ttl_seconds, asked.now_ms):
        page.expired += 1
    elif state is RowState.UNCOMMITTED:
        page.blocked = True
        return
    else:
        page.ids.append(id_of(position))
        page.payloads.append(row.payload)
        page.size += len(row.payload)
        return
    page.next_position = _past(position, page, asked.upto)


def _past(position: PositionBytes, page: MessagePage, upto: MessageId) -> MessageId:
    """The position after everything in a row, but not beyond the requested end."""
    return min(max(page.next_position, last_of(position)), upto)


def _note_expiry(position: PositionBytes, ttl_seconds: int, page: MessagePage) -> None:
    if ttl_seconds:
        page.lasts_until_ms = min(page.lasts_until_ms, timestamp_of(position) + ttl_seconds * 1000)


def is_expired(position: PositionBytes, ttl_seconds: int, now_ms: int) -> bool:
    """Whether a message is past its own ttl (0: it has none), which also applies in an open transaction."""
    return ttl_seconds > 0 and now_ms > timestamp_of(position) + ttl_seconds * 1000


def _read_payloads(
    snapshot: Snapshot,
    topic: TopicGeneration,
    position: PositionBytes,
    row: rows.MessageRow,
    page: MessagePage,
    asked: ReadRange,
    state: RowState,
) -> None:
    """The payload rows for which a reference stands, from where the reader stopped last time."""
    aborted = state is RowState.ABORTED
    first, last = row.payload[:POSITION_BYTES], row.payload[POSITION_BYTES:]
    if position == asked.after[:POSITION_BYTES]:
        first = max(first, asked.after[POSITION_BYTES:])
    if position == asked.upto[:POSITION_BYTES]:
        last = min(last, asked.upto[POSITION_BYTES:])
    prefix = keys.payloads(topic, abs(row.pointer))
    if first < last:
        for key, value in snapshot.scan(prefix + first + b"\x00", prefix + last + b"\x00"):
            stored = rows.decode(value)
            message_id = id_of(position, keys.position(key))
            _note_expiry(position, stored.ttl_seconds, page)
            is_over = aborted or is_expired(position, stored.ttl_seconds, asked.now_ms)
            if state is RowState.UNCOMMITTED and not is_over:
                page.blocked = True
                return
            page.next_position = message_id
            if is_over:
                page.judged += 1
                page.aborted += aborted
                page.expired += not aborted
            else:
                page.ids.append(message_id)
                page.payloads.append(stored.payload)
                page.size += len(stored.payload)
            if len(page.ids) >= asked.limit or page.size >= asked.bytes_max or page.judged >= JUDGED_ROWS_MAX:
                return
    page.next_position = _past(position, page, asked.upto)
