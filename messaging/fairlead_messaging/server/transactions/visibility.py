"""Visibility: which rows a reader may see (seed: transactional messaging, "Consuming").

A reader stops at the first uncommitted row, so all readers see the same sequence.
"""

from __future__ import annotations

import msgspec

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.api.message_id import FIRST, POSITION_BYTES, MessageId, PositionBytes, id_of
from fairlead_messaging.server.log import keys, reader, rows
from fairlead_messaging.server.log.rows import RowState, RowStates, Uncommitted
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.transactions.transaction import TransactionView

POINTERS_MAX = 100_000


class TransactionSnapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a transaction may see; opaque to the client, which gets it at the start and sends it with its polls."""

    pointer: int
    in_progress: frozenset[int]
    invalid: frozenset[int]

    def encode(self) -> bytes:
        return msgspec.msgpack.encode((self.pointer, sorted(self.in_progress), sorted(self.invalid)))


def decode_snapshot(raw: bytes) -> TransactionSnapshot:
    """Raises: Refused unless ``encode`` made these bytes."""
    try:
        pointer, in_progress, invalid = msgspec.msgpack.decode(raw, type=tuple[int, list[int], list[int]])
    except msgspec.MsgspecError:
        raise Refused("transaction is not a snapshot that this service gave out", code="bad_transaction") from None
    if pointer <= 0 or len(in_progress) + len(invalid) > POINTERS_MAX:
        raise Refused("transaction is not a snapshot that this service gave out", code="bad_transaction")
    return TransactionSnapshot(pointer, frozenset(in_progress), frozenset(invalid))


def _read_committed(view: TransactionView) -> RowStates:
    """Shows everything that is committed now."""

    def states(pointer: int) -> RowState:
        if pointer < 0 or pointer in view.aborted:
            return RowState.ABORTED
        return RowState.UNCOMMITTED if pointer in view.in_progress else RowState.COMMITTED

    return states


def _within(snapshot: TransactionSnapshot, view: TransactionView) -> RowStates:
    """Shows what was committed when the transaction began, and its own messages."""

    def states(pointer: int) -> RowState:
        if pointer < 0 or pointer in view.aborted or pointer in snapshot.invalid:
            return RowState.ABORTED
        if pointer == snapshot.pointer:
            return RowState.COMMITTED
        if pointer > snapshot.pointer or pointer in snapshot.in_progress:
            return RowState.UNCOMMITTED
        return RowState.COMMITTED

    return states


def row_states(
    view: TransactionView, within_snapshot: TransactionSnapshot | None, *, read_committed: bool
) -> RowStates | None:
    """The states for a poll: by its transaction's snapshot, by what is committed now, or None."""
    if within_snapshot is not None:
        return _within(within_snapshot, view)
    return _read_committed(view) if read_committed else None


def row_states_of(
    snapshot: Snapshot, within_snapshot: TransactionSnapshot | None, *, read_committed: bool
) -> RowStates | None:
    """The same from a snapshot of the store, which reads the transactions only if they are needed.

    Raises: TransactionsUnavailable.
    """
    if within_snapshot is None and not read_committed:
        return None
    return row_states(TransactionView(snapshot), within_snapshot, read_committed=read_committed)


# --- The first message that holds up a reader of committed messages.
# Expired messages and messages before the reader's start do not. A transaction records the first and last of its rows
# in a topic; a scan between them usually finds the message at once.

SCAN_ROWS_MAX = 50_000
"""How many rows to search.  Readers may then read up to the last of them, and the next search starts there."""


def first_uncommitted(
    snapshot: Snapshot, view: TransactionView, topic: TopicGeneration, *, now_ms: int, after: MessageId = FIRST
) -> Uncommitted | None:
    """The first uncommitted message with an id above ``after``; None if there is none."""
    spans = {pointer: (begin.encode(), end.encode()) for pointer, begin, end in view.spans(topic)}
    if not spans:
        return None
    start = max(after, reader.oldest_live(topic, now_ms))
    low = max(min(begin for begin, _ in spans.values()), start[:POSITION_BYTES])
    high = max(end for _, end in spans.values())
    if low > high:
        return None
    prefix = keys.table(keys.MESSAGE, topic)
    for looked, (key, value) in enumerate(snapshot.scan(prefix + low, prefix + high + b"\x00")):
        position = keys.position(key)
        if looked >= SCAN_ROWS_MAX:
            return Uncommitted(message_id=id_of(position), pointer=None)
        if not value[0] & rows.HAS_POINTER:
            continue
        row = rows.decode(value)
        if row.pointer in spans and _waits(snapshot, topic, position, row, start, now_ms):
            return Uncommitted(message_id=id_of(position), pointer=row.pointer)
    return None


def _waits(
    snapshot: Snapshot,
    topic: TopicGeneration,
    position: PositionBytes,
    row: rows.MessageRow,
    start: MessageId,
    now_ms: int,
) -> bool:
    """Whether an uncommitted row has a message after ``start`` that has not expired."""
    if not row.is_reference:
        return id_of(position) > start and not reader.is_expired(position, row.ttl_seconds, now_ms)
    low, upto = row.payload[:POSITION_BYTES], row.payload[POSITION_BYTES:]
    if position == start[:POSITION_BYTES]:
        low = max(low, start[POSITION_BYTES:])
    if low >= upto:
        return False
    prefix = keys.payloads(topic, row.pointer)
    stored = snapshot.scan(prefix + low + b"\x00", prefix + upto + b"\x00")
    # Payload rows beyond the limit count as not expired: at the latest they end with their transaction.
    return any(
        looked >= SCAN_ROWS_MAX or not reader.is_expired(position, rows.decode(value).ttl_seconds, now_ms)
        for looked, (_, value) in enumerate(stored)
    )
