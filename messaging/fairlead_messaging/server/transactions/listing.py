"""Lists transactions for operators: which ones hold up which topics, since when, until when, and how others ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fairlead_messaging.api import responses
from fairlead_messaging.server.access import UNRESTRICTED, Caller
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.transactions import transaction
from fairlead_messaging.server.transactions.transaction import (
    Transaction,
    TransactionLimits,
    TransactionState,
    TransactionView,
    held_until_ms,
    lifetime_end_ms,
)

FINISHED_LOOKED_MAX = 20_000
"""How many finished transactions a request examines; the next one continues before the last in the answer."""
FINISHED_BYTES_MAX = 16 * 1024 * 1024
"""The same in bytes of their records: one may have the digests of ten thousand keys."""
POINTER_MAX = 2**63 - 1


def in_progress(snapshot: Snapshot) -> list[Transaction]:
    """Oldest first."""
    return sorted(TransactionView(snapshot).in_progress.values(), key=lambda each: each.pointer)


def finished(
    snapshot: Snapshot, states: Collection[TransactionState], *, before: int = POINTER_MAX, limit: int
) -> list[Transaction]:
    """Newest first, at most ``limit`` that began before the transaction ``before``; damaged records are skipped."""
    # Aborted ones whose rows still have to be marked.
    found = [each for each in transaction.read_open(snapshot) if each.pointer < before and each.state in states]
    high, taken, size = keys.finished(before), 0, 0
    for _ in range(FINISHED_LOOKED_MAX):
        row = snapshot.last_below(keys.FINISHED, high)
        if row is None or taken >= limit or size >= FINISHED_BYTES_MAX:
            break
        high, size = row[0], size + len(row[1])
        ended = transaction.decode_undamaged(row[1])
        if ended is not None and ended.state in states:
            found.append(ended)
            taken += 1
    return sorted(found, key=lambda each: -each.pointer)[:limit]


def visible_to(caller: Caller, found: Iterable[Transaction]) -> list[Transaction]:
    """The caller's own transactions, and those that touched a topic which the caller may see."""
    return [
        each
        for each in found
        if caller.owns(each.owner) or any(caller.sees(touched.namespace, touched.name) for touched in each.touched)
    ]


def shown(
    found: Transaction, limits: TransactionLimits, now_ms: int, caller: Caller = UNRESTRICTED
) -> responses.OpenTransaction:
    """A transaction in the form of the interface, with the topics that the caller may see."""
    touched = [each for each in found.touched if caller.sees(each.namespace, each.name)]
    is_open = found.state is TransactionState.IN_PROGRESS
    held = [
        responses.HeldTopic(topic=f"{each.namespace}/{each.name}", since=each.first.timestamp, until=until)
        for each in touched
        if is_open and each.first is not None
        if (until := held_until_ms(found, each, limits, now_ms)) is not None
    ]
    stored = [
        responses.StoredPayloads(
            topic=f"{each.namespace}/{each.name}", messages=each.pending_rows, bytes=each.pending_bytes
        )
        for each in touched
        if is_open and each.pending_rows
    ]
    return responses.OpenTransaction(
        transactionWritePointer=found.pointer,
        state=found.state.value,
        started=found.started_ms,
        expires=found.expires_ms,
        topics=tuple(held),
        timeout=found.timeout_seconds,
        renewable=max(found.expires_ms, lifetime_end_ms(found, limits)),
        stored=tuple(stored),
        ended=None if is_open else found.finished_ms,
        ended_by=found.ended_by,
        marked=found.rows_marked,
    )
