"""The transaction manager: starts, commits, aborts, invalidates and expires transactions, and marks their rows.

Every change is a record in the atomic batch with everything else, so nothing is visible before it is durable.  Pointers
only grow, whatever the clock does (seed: transactional messaging; pointer = max(last + 1, milliseconds · 1 000 000)).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice

from fairlead_messaging.api.errors import Conflict, Unavailable
from fairlead_messaging.api.message_id import POSITION_BYTES, Position, decode_position
from fairlead_messaging.api.responses import EndedBy
from fairlead_messaging.server.log import keys, rows
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV, Snapshot
from fairlead_messaging.server.transactions import transaction
from fairlead_messaging.server.transactions.transaction import (
    Transaction,
    TransactionLimits,
    TransactionState,
    deadline,
    lifetime_end_ms,
)
from fairlead_messaging.server.transactions.visibility import TransactionSnapshot

# --- Conflict detection: which keys were committed while other transactions were open.
# A key is remembered as a digest, and only while a transaction is open that began before the key was committed.

DIGEST_BYTES = 8
"""Two keys with the same digest by chance are reported as a conflict."""
COMMITTED_MAX = 1_000_000
"""How many keys are remembered.  Beyond this the oldest are dropped, and a transaction that began before they were
committed conflicts whatever it changed."""
FORGOTTEN_MAX = 50_000
"""How many keys are dropped at once; at least as many as one commit may add."""


def digests(changes: Iterable[str]) -> list[bytes]:
    """Digests of the keys that a transaction changed."""
    return [
        hashlib.blake2b(change.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES).digest() for change in changes
    ]


class CommittedKeys:
    """Keys that were committed recently.  Times are pointers: the newest one when a transaction committed."""

    def __init__(self) -> None:
        self._committed: dict[bytes, int] = {}
        """Digest of a key → when it was last committed, oldest first."""
        self._forgotten = 0
        """The newest time of a dropped key."""

    def __len__(self) -> int:
        return len(self._committed)

    def conflict(self, pointer: int, changed: list[bytes]) -> bool:
        """Whether one of these keys was committed, or may have been, since the transaction ``pointer`` began."""
        if changed and self._forgotten >= pointer:
            return True
        return any(self._committed.get(digest, 0) >= pointer for digest in changed)

    def add(self, changed: Iterable[bytes], at: int) -> None:
        for digest in changed:
            self._committed.pop(digest, None)  # keeps the order of commits
            self._committed[digest] = at

    def forget_upto(self, pointer: int) -> None:
        """Treat keys committed by then as unknown: transactions that began before conflict whatever they changed."""
        self._forgotten = max(self._forgotten, pointer)

    def forget(self, oldest_open: int) -> None:
        """Drop keys committed before the oldest open transaction began; beyond the limit, also the oldest others."""
        gone: list[bytes] = []
        for digest, at in islice(self._committed.items(), FORGOTTEN_MAX):
            if at >= oldest_open and len(self._committed) - len(gone) <= COMMITTED_MAX:
                break
            gone.append(digest)
            if at >= oldest_open:
                self._forgotten = max(self._forgotten, at)
        for digest in gone:
            del self._committed[digest]


POINTERS_PER_MS = 1_000_000
OPEN_MAX = 1000
OPEN_OF_ONE_MAX = 500
"""The limit for one subject, so that a client which may publish to one topic cannot use up all transactions."""
RECORD_KEPT_MS = 86_400_000
"""How long the state of a finished transaction is kept."""

SETTLE_ROWS_MAX = 500
SETTLE_BYTES_MAX = 1024 * 1024
"""How many rows, and bytes of rows, are examined for marking at once."""

PRUNE_ROWS_MAX = 500
"""How many finished transactions are examined at once."""

OPEN_MARGIN_POINTERS = 3_600_000 * POINTERS_PER_MS
"""Longer ones that committed changes are listed separately, so that a restart need not read all that have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedTransaction:
    transaction: Transaction
    snapshot: TransactionSnapshot


class TransactionManager:
    """The open transactions and the newest pointer; finished ones are read from the store if needed."""

    def __init__(self, kv: OrderedKV, last_pointer: int = 0, limits: TransactionLimits | None = None) -> None:
        self._kv = kv
        self.limits = limits or TransactionLimits()
        self.open: dict[int, Transaction] = {}
        newest = kv.get(keys.service("pointer"))
        self._last = max(last_pointer, int.from_bytes(newest, "big") if newest else 0)
        self.committed_keys = CommittedKeys()
        self._fresh: set[int] = set()
        self._closed: dict[int, Transaction] = {}
        self._pruned = b""
        """Where the next pruning of finished transactions begins."""
        with kv.snapshot() as snapshot:
            for found in transaction.read_open(snapshot):
                self.open[found.pointer] = found
            self._read_changes(snapshot)

    def _read_changes(self, snapshot: Snapshot) -> None:
        """Read the changes of transactions that committed while one was open that still is; usually there are none."""
        oldest = self._oldest_open()
        if oldest > self._last:
            return
        low = keys.finished(max(0, oldest - OPEN_MARGIN_POINTERS))
        ended = []
        long = snapshot.scan(keys.LONG, keys.long_commit(max(0, oldest - OPEN_MARGIN_POINTERS)))
        records = (snapshot.get(keys.FINISHED + key[len(keys.LONG) :]) for key, _ in long)
        recent = (raw for _, raw in snapshot.scan(low, keys.above(keys.FINISHED)))
        for raw in chain(recent, (each for each in records if each is not None)):
            found = transaction.decode_finished(raw)
            if found is None:
                # Its keys are unknown, so every open transaction counts as in conflict.
                self.committed_keys.forget_upto(self._last)
            elif found.finished_at >= oldest:
                ended.append((found.finished_at, found.pointer))
        for _, pointer in sorted(ended):
            record = transaction.read_finished(snapshot, pointer)
            assert record is not None
            self._note_changes(record)

    def _oldest_open(self) -> int:
        """The lowest pointer that may still commit; one above the newest pointer if there is none."""
        return min((each.pointer for each in self.in_progress), default=self._last + 1)

    @property
    def last_pointer(self) -> int:
        return self._last

    @property
    def in_progress(self) -> list[Transaction]:
        return [each for each in self.open.values() if each.state is TransactionState.IN_PROGRESS]

    @property
    def rolling(self) -> list[Transaction]:
        """The transactions with a rollback in progress."""
        return [each for each in self.in_progress if any(touched.rolling is not None for touched in each.touched)]

    @property
    def unmarked(self) -> list[Transaction]:
        return [each for each in self.open.values() if each.state is not TransactionState.IN_PROGRESS]

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When the next transaction times out unless it is renewed or finished before."""
        return min((deadline(each, self.limits, now_ms).at_ms for each in self.in_progress), default=None)

    @property
    def oldest_start_ms(self) -> int | None:
        """When the oldest transaction in progress began."""
        return min((each.started_ms for each in self.in_progress), default=None)

    def start(self, timeout_seconds: float, batch: Batch, now_ms: int, owner: str = "") -> StartedTransaction:
        """Begin a transaction.  Raises: Unavailable if too many are open."""
        if len(self.open) >= OPEN_MAX:
            raise Unavailable(f"{OPEN_MAX} transactions are open", code="too_many_transactions")
        if owner and len(self.open) >= OPEN_OF_ONE_MAX <= sum(each.owner == owner for each in self.open.values()):
            shown = f"{OPEN_OF_ONE_MAX} transactions of this subject are open: end some"
            raise Unavailable(shown, code="too_many_transactions")
        self._last = max(self._last + 1, now_ms * POINTERS_PER_MS)
        started = Transaction(
            pointer=self._last,
            state=TransactionState.IN_PROGRESS,
            started_ms=now_ms,
            expires_ms=now_ms + int(timeout_seconds * 1000),
            timeout_seconds=timeout_seconds,
            owner=owner,
        )
        others = TransactionSnapshot(
            started.pointer,
            frozenset(each.pointer for each in self.in_progress),
            frozenset(each.pointer for each in self.unmarked),
        )
        self.open[started.pointer] = started
        batch.put(keys.service("pointer"), self._last.to_bytes(8, "big"))
        self.write(started, batch)
        return StartedTransaction(transaction=started, snapshot=others)

    def state(self, pointer: int) -> str:
        """The state in words; ``unknown`` for a pointer that never existed or was pruned."""
        found = self.find(pointer)
        return found.state.value if found is not None else "unknown"

    def find(self, pointer: int) -> Transaction | None:
        if pointer in self.open:
            return self.open[pointer]
        if pointer in self._closed:
            return self._closed[pointer]
        if not 0 < pointer < 2**63:
            return None
        return transaction.read_finished(self._kv, pointer)

    def writable(self, pointer: int, now_ms: int) -> Transaction:
        """The transaction, if it may still publish and be finished.

        Raises: Conflict with its state otherwise.
        """
        found = self.find(pointer)
        if found is None or found.state is not TransactionState.IN_PROGRESS:
            state = found.state.value if found is not None else "unknown"
            raise _over(pointer, state, found.ended_by if found is not None else "")
        end = deadline(found, self.limits, now_ms)
        if now_ms > end.at_ms:
            raise _over(pointer, TransactionState.INVALID.value, end.ended_by)
        return found

    def renew(self, pointer: int, timeout_seconds: float | None, batch: Batch, now_ms: int) -> Transaction:
        """Let it time out that long from now, by default its own timeout; never beyond its lifetime.

        Raises: Conflict if it is not in progress.
        """
        found = self.writable(pointer, now_ms)
        found.timeout_seconds = timeout_seconds or found.timeout_seconds
        last_ms = lifetime_end_ms(found, self.limits)
        found.expires_ms = min(now_ms + int(found.timeout_seconds * 1000), max(last_ms, found.expires_ms))
        self.write(found, batch)
        return found

    def write(self, changed: Transaction, batch: Batch) -> None:
        if changed.is_open:
            batch.put(keys.open_transaction(changed.pointer), transaction.encode(changed))
        else:
            self.open.pop(changed.pointer, None)
            self._closed[changed.pointer] = changed
            batch.delete(keys.open_transaction(changed.pointer))
            batch.put(keys.finished(changed.pointer), transaction.encode(changed))

    def commit(self, pointer: int, changes: list[str], batch: Batch, now_ms: int) -> Transaction:
        """Commit it, or abort it if a transaction that committed since it began changed one of the same keys.

        Raises: Conflict if it is not in progress, Unavailable while a rollback of it is in progress.
        """
        ended = self.find(pointer)
        if ended is not None and ended.ended_by == "conflict":
            return ended  # a repeat after a lost answer
        found = self.writable(pointer, now_ms)
        if any(touched.rolling is not None for touched in found.touched):
            raise Unavailable("a rollback of this transaction is being carried out", code="rolling_back")
        changed = digests(changes)
        if self.committed_keys.conflict(pointer, changed):
            return self._finish(found, TransactionState.ABORTED, batch, now_ms, "conflict")
        found.changed = b"".join(changed)
        return self._finish(found, TransactionState.COMMITTED, batch, now_ms)

    def abort(self, pointer: int, batch: Batch, now_ms: int) -> Transaction:
        """Abort it.  Raises: Conflict if it is not in progress."""
        return self._finish(self.writable(pointer, now_ms), TransactionState.ABORTED, batch, now_ms)

    def invalidate(self, pointer: int, batch: Batch, now_ms: int) -> Transaction:
        """End one that holds up readers, for an operator.  Raises: Conflict if it is not in progress."""
        found = self.find(pointer)
        if found is None or found.state is not TransactionState.IN_PROGRESS:
            self.writable(pointer, now_ms)
        assert found is not None
        return self._finish(found, TransactionState.INVALID, batch, now_ms, "invalidate")

    def expire(self, batch: Batch, now_ms: int) -> list[Transaction]:
        """Invalidate transactions that timed out or held up readers for too long."""
        ends = [(each, deadline(each, self.limits, now_ms)) for each in self.in_progress]
        return [
            self._finish(each, TransactionState.INVALID, batch, now_ms, end.ended_by)
            for each, end in ends
            if now_ms > end.at_ms
        ]

    def mark_aborted(self, batch: Batch) -> bool:
        """Mark a bounded number of rows of an aborted or invalid transaction; True while there is more to do.

        Once all its rows are marked, readers need not know the pointer any more.
        """
        for found in self.unmarked:
            if found.pointer in self._fresh:
                continue  # its last rows may be in this batch, where they cannot be found yet
            for touched in found.touched:
                if touched.first is None or touched.last is None:
                    continue
                touched.first = self.mark(found.pointer, touched.topic, touched.first, touched.last, batch)
                if touched.first is not None:
                    self.write(found, batch)
                    return True
            found.rows_marked = True
            self.write(found, batch)
            break
        return bool(self.unmarked)

    def batch_applied(self) -> None:
        """The batch is durable: rows of transactions that finished in it can be marked from now on."""
        self._fresh.clear()
        self._closed.clear()

    def mark(
        self, pointer: int, topic: TopicGeneration, first: Position, last: Position, batch: Batch
    ) -> Position | None:
        """Mark a bounded number of rows from ``first`` to ``last``; returns where to continue, or None."""
        prefix = keys.table(keys.MESSAGE, topic)
        looked = size = 0
        with self._kv.snapshot() as snapshot:
            for key, value in snapshot.scan(prefix + first.encode(), prefix + last.encode() + b"\x00"):
                if looked >= SETTLE_ROWS_MAX or size >= SETTLE_BYTES_MAX:
                    return decode_position(key[-POSITION_BYTES:])
                looked, size = looked + 1, size + len(value)
                if value[0] & rows.HAS_POINTER and rows.decode(value).pointer == pointer and not batch.is_removed(key):
                    batch.put(key, rows.rolled_back(value))
        return None

    def prune(self, batch: Batch, now_ms: int) -> bool:
        """Remove transactions that finished long ago; True while there may be more."""
        oldest = self._oldest_open()
        # A transaction ends after it began, so none that began later than this is due.
        due = min(max(0, (now_ms - RECORD_KEPT_MS) * POINTERS_PER_MS), 2**63)
        looked = 0
        with self._kv.snapshot() as snapshot:
            for key, raw in snapshot.scan(max(self._pruned, keys.FINISHED), keys.finished(due)):
                looked += 1
                found = transaction.decode_finished(raw)
                if found is None:
                    continue  # a damaged record stays for later examination
                if found.finished_ms + RECORD_KEPT_MS < now_ms and found.finished_at < oldest:
                    batch.delete(key)
                    if _is_long(found.pointer, found.finished_at):
                        batch.delete(keys.long_commit(found.pointer))
                if looked >= PRUNE_ROWS_MAX:
                    self._pruned = key + b"\x00"
                    return True
        self._pruned = b""
        self.committed_keys.forget(self._oldest_open())
        return False

    def _finish(
        self, found: Transaction, state: TransactionState, batch: Batch, now_ms: int, ended_by: EndedBy = ""
    ) -> Transaction:
        found.state, found.finished_ms, found.finished_at = state, now_ms, self._last
        found.ended_by = ended_by
        for touched in found.touched:
            if touched.pending_rows:  # stored payloads can no longer be published
                payloads = keys.payloads(touched.topic, found.pointer)
                batch.delete_range(
                    payloads + touched.published.encode() + b"\x00", payloads + touched.stored.encode() + b"\x00"
                )
        for touched in found.touched:
            touched.rolling = None  # all its messages are hidden
        if state is not TransactionState.COMMITTED:
            self._fresh.add(found.pointer)
        elif found.changed and _is_long(found.pointer, found.finished_at):
            batch.put(keys.long_commit(found.pointer), b"")
        self.write(found, batch)
        self._note_changes(found)
        return found

    def _note_changes(self, found: Transaction) -> None:
        if found.state is not TransactionState.COMMITTED or self._oldest_open() > found.finished_at:
            return  # no open transaction could conflict with it
        changed = [found.changed[at : at + DIGEST_BYTES] for at in range(0, len(found.changed), DIGEST_BYTES)]
        self.committed_keys.add(changed, found.finished_at)
        self.committed_keys.forget(self._oldest_open())


def _is_long(pointer: int, finished_at: int) -> bool:
    """Whether it began so long before it finished that a restart would not find it."""
    return finished_at - pointer > OPEN_MARGIN_POINTERS


_WHY = {
    "timeout": "it was not renewed in time",
    "lifetime": "it lasted as long as a transaction may ([transactions] lifetime_seconds_max)",
    "hold_up": "it held up the readers of a topic for as long as they may be (hold_up_seconds_max)",
    "invalidate": "it was invalidated",
    "conflict": "another transaction changed the same keys first",
}


def _over(pointer: int, state: str, ended_by: EndedBy) -> Conflict:
    why = f": {_WHY[ended_by]}" if ended_by else ""
    facts = {"ended_by": ended_by} if ended_by else {}
    return Conflict(f"transaction {pointer} is {state}{why}", code="transaction_not_in_progress", state=state, **facts)
