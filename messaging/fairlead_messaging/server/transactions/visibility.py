"""Which rows a reader may see (seed: transactional messaging, "Consuming").

A reader stops at the first uncommitted row, so every reader sees one and the same sequence.
"""

from __future__ import annotations

import msgspec

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.server.log.row_state import RowState, RowStates
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.transactions.transaction import TransactionView

POINTERS_MAX = 100_000


class TransactionSnapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a transaction may see: handed out at its start, opaque to the client, sent with its polls."""

    pointer: int
    in_progress: frozenset[int]
    invalid: frozenset[int]

    def encode(self) -> bytes:
        return msgspec.msgpack.encode((self.pointer, sorted(self.in_progress), sorted(self.invalid)))


def decode_snapshot(raw: bytes) -> TransactionSnapshot:
    """Raises: Refused when these are not bytes that ``encode`` gave."""
    try:
        pointer, in_progress, invalid = msgspec.msgpack.decode(raw, type=tuple[int, list[int], list[int]])
    except msgspec.MsgspecError:
        raise Refused("transaction is not a snapshot that this service gave out", code="bad_transaction") from None
    if pointer <= 0 or len(in_progress) + len(invalid) > POINTERS_MAX:
        raise Refused("transaction is not a snapshot that this service gave out", code="bad_transaction")
    return TransactionSnapshot(pointer, frozenset(in_progress), frozenset(invalid))


def _read_committed(view: TransactionView) -> RowStates:
    """By the service: everything committed by now."""

    def states(pointer: int) -> RowState:
        if pointer < 0 or pointer in view.aborted:
            return RowState.ABORTED
        return RowState.UNCOMMITTED if pointer in view.in_progress else RowState.COMMITTED

    return states


def _within(snapshot: TransactionSnapshot, view: TransactionView) -> RowStates:
    """What was committed when the transaction began, and its own writes."""

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
    """How a poll judges rows: by its own snapshot, by the service's, or not at all."""
    if within_snapshot is not None:
        return _within(within_snapshot, view)
    return _read_committed(view) if read_committed else None


def row_states_of(
    snapshot: Snapshot, within_snapshot: TransactionSnapshot | None, *, read_committed: bool
) -> RowStates | None:
    """The same from a snapshot of the store, whose transactions are looked at only by those who ask for them.

    Raises: TransactionsUnavailable.
    """
    if within_snapshot is None and not read_committed:
        return None
    return row_states(TransactionView(snapshot), within_snapshot, read_committed=read_committed)
