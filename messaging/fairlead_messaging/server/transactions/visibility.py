"""Which rows a reader may see (seed: transactional messaging, "Consuming").

A reader stops at the first undecided row, so every reader sees one and the same sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.server.transactions.transaction import View

POINTERS_MAX = 100_000


class Decision(Enum):
    """ACCEPT: show the row.  SKIP: it will never be shown.  HOLD: undecided, end the scan."""

    ACCEPT = 1
    SKIP = 2
    HOLD = 3


Decide = Callable[[int], Decision]
"""Decision for the pointer of a row, negative when it was rolled back."""


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


def _read_committed(view: View) -> Decide:
    """The service's own judgement: everything committed by now."""

    def decide(pointer: int) -> Decision:
        if pointer < 0 or pointer in view.hidden:
            return Decision.SKIP
        return Decision.HOLD if pointer in view.in_progress else Decision.ACCEPT

    return decide


def _within(snapshot: TransactionSnapshot, view: View) -> Decide:
    """What was committed when the transaction began, and its own writes."""

    def decide(pointer: int) -> Decision:
        if pointer < 0 or pointer in view.hidden or pointer in snapshot.invalid:
            return Decision.SKIP
        if pointer == snapshot.pointer:
            return Decision.ACCEPT
        if pointer > snapshot.pointer or pointer in snapshot.in_progress:
            return Decision.HOLD
        return Decision.ACCEPT

    return decide


def decide(view: View, within_snapshot: TransactionSnapshot | None, *, read_committed: bool) -> Decide | None:
    """How a poll judges rows: by its own snapshot, by the service's, or not at all."""
    if within_snapshot is not None:
        return _within(within_snapshot, view)
    return _read_committed(view) if read_committed else None
