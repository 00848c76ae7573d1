"""Cassandra behind the ordered key-value port.

    apply ─→ record ─→ journal (durable: the answer) ─→ layer ─→ applier ─→ rows ─→ layer gone
                                                          ▲
    snapshot ─→ layers of its day, over rows that are not changed while it is open

If the outcome of a write is unknown, the store finds out before it answers: this instance takes the next epoch, which
prevents the write from taking place later, and reads whether it did.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.cassandra.applier import Applier, ApplyAttempt
from fairlead_messaging.server.io.stores.cassandra.journal import Journal, ShardState
from fairlead_messaging.server.io.stores.cassandra.ownership import BEAT_SECONDS, Ownership, TakenOver
from fairlead_messaging.server.io.stores.cassandra.rows import BucketRows, CassandraSnapshot
from fairlead_messaging.server.io.stores.cassandra.session import SHARD, CassandraSession, UnknownOutcome
from fairlead_messaging.server.settings import CassandraModel
from fairlead_messaging.server.store import buckets
from fairlead_messaging.server.store.buckets import Directory
from fairlead_messaging.server.store.layer import UNTOUCHED, Layer, Untouched
from fairlead_messaging.server.store.ordered_kv import Batch, OneWriter
from fairlead_wire.io import logs

KEYS_MAX: Final = 16_384
VALUE_BYTES_MAX: Final = 4096


SETTLE_SECONDS: Final = 12.0
"""How long to check whether a write took place before reporting its outcome as unknown."""
SETTLE_PAUSE_SECONDS: Final = 0.3
DRAIN_SECONDS: Final = 10.0
SIZE_STEP_BYTES: Final = 1024 * 1024
"""How much a bucket grows before its new size is recorded."""
ABOVE_ALL: Final = b"\xff" * 64

_log = logs.get("messaging.cassandra")


class Observer(Protocol):
    """Who counts."""

    def note_request(self, operation: str, seconds: float) -> None: ...

    def note_unknown(self) -> None: ...

    def note_repeated(self) -> None: ...

    def note_taken_over(self) -> None: ...

    def show_unapplied(self, batches: int) -> None: ...


def open_cassandra(model: CassandraModel, name: str, observer: Observer) -> CassandraKV:
    """Open the store of this service.  Raises: StorageError with a remedy."""
    session = CassandraSession(model, observer.note_request)
    return open_shard(session, SHARD, name, observer, session.close)


def open_shard(
    session: CassandraSession, shard: str, name: str, observer: Observer, on_close: Callable[[], None] = lambda: None
) -> CassandraKV:
    """Open one shard of a keyspace.  Raises: as ``CassandraKV``, after calling ``on_close``."""
    try:
        return CassandraKV(Journal(session, shard), BucketRows(session, shard), name, observer, on_close)
    except BaseException:
        on_close()
        raise


class CassandraKV(OneWriter):
    """``name`` identifies this instance to others; ``close`` calls ``on_close`` at the end.

    Opening waits for an owner that may have crashed.  Raises: TakenOver if that is alive, StorageError.
    """

    is_remote = True

    def __init__(
        self,
        journal: Journal,
        rows: BucketRows,
        name: str,
        observer: Observer,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._observer = observer
        self._on_close = on_close
        self._journal = journal
        self._rows = rows
        self._owner = Ownership(self._journal, str(uuid.uuid4()), name, observer.note_taken_over)
        self._write_lock = threading.RLock()
        self._applier = Applier(self._rows, observer.show_unapplied)
        self._recent = RecentValues()
        self._directory = Directory()
        self._sizes: dict[bytes, int] = {}
        self._sizes_written: dict[bytes, int] = {}
        self._number = 0
        self._in_doubt: ApplyAttempt | None = None
        self._epoch_is_over = True
        self._is_loaded = False
        state = self._owner.wait_and_take()
        try:
            self._load(state)
        except BaseException:
            self._owner.release(state.applied)
            raise
        self._closing = threading.Event()
        self._applier.start()
        self._keeper = threading.Thread(target=self._keep, name="cassandra-keeper", daemon=True)
        self._keeper.start()

    # --- the port

    def apply(self, batch: Batch) -> None:
        with self._write_lock:
            if (self._owner.taken_by or self._epoch_is_over) and self._regain() is None and batch.operations:
                # The batch was computed from what the store held before another instance wrote.
                raise StorageError("cassandra: another instance wrote meanwhile, so this was not written; repeat it")
            if not batch.operations:
                self._owner.beat(self._applier.applied)
                return
            if not self._owner.is_confirmed():
                self._owner.beat(self._applier.applied)
            self._applier.wait_for_room()
            self._commit(self._attempt(batch))

    def get(self, key: bytes) -> bytes | None:
        self._check_owner()
        found, number = self._recent.get(key)
        if not isinstance(found, Untouched):
            return found
        with self.snapshot() as snapshot:
            value = snapshot.get(key)
        self._recent.keep(key, value, number)
        return value

    def snapshot(self, *, sequential: bool = False) -> CassandraSnapshot:
        self._check_owner()
        with self._applier.changed:
            number, layers = self._applier.opened()
            return CassandraSnapshot(
                self._rows, self._directory, number, layers, self._check_snapshot, self._applier.closed
            )

    def compact(self, low: bytes, high: bytes) -> None:
        """Does nothing: Cassandra compacts by itself, after `gc_grace_seconds`."""

    def reclaim(self) -> None:
        """The same."""

    def close(self) -> None:
        self._closing.set()
        self._keeper.join()
        with self._write_lock:
            self._applier.close(DRAIN_SECONDS)
            with contextlib.suppress(StorageError):
                self._owner.release(self._applier.applied)
            self._on_close()

    # --- writing

    def _attempt(self, batch: Batch) -> ApplyAttempt:
        layer = Layer.of(batch, self._number + 1)
        changes = buckets.changes(self._directory, layer, self._sizes, self._last_below)
        directory = self._directory
        if changes.added or changes.dropped:
            directory = directory.changed(changes.added, changes.dropped)
        record = buckets.record_of(layer, directory, changes)
        for each in record.buckets:
            size = self._sizes.get(each.bucket, 0) + sum(len(key) + len(value or b"") for key, value in each.rows)
            self._sizes[each.bucket] = size
            if each.bucket in record.sizes or size - self._sizes_written.get(each.bucket, 0) >= SIZE_STEP_BYTES:
                record.sizes[each.bucket] = self._sizes_written[each.bucket] = size
        for low in changes.dropped:
            self._sizes.pop(low, None)
            self._sizes_written.pop(low, None)
        return ApplyAttempt(layer, record, directory)

    def _last_below(self, low: bytes, high: bytes | None) -> bytes | None:
        with self.snapshot() as snapshot:
            found = snapshot.last_below(low, ABOVE_ALL if high is None else high)
            return found[0] if found else None

    def _commit(self, attempt: ApplyAttempt) -> None:
        """Write the batch; it is durable when this returns.  Raises: TakenOver; StorageError if that is unknown."""
        deadline = time.monotonic() + SETTLE_SECONDS
        raw = buckets.encode_record(attempt.record)
        while True:
            self._in_doubt = attempt
            self._epoch_is_over = True
            try:
                if self._owner.commit(attempt.layer.number, self._applier.applied, raw):
                    self._epoch_is_over = False
                    self._publish(attempt)
                    return
            except StorageError as error:
                self._observer.note_unknown()
                _log.warning("outcome_unknown", batch=attempt.layer.number, reason=str(error))
            if self._settled(deadline):
                return
            self._observer.note_repeated()
            if time.monotonic() > deadline:
                raise StorageError("cassandra: the write did not take place, and no time is left to try it again")

    def _settled(self, deadline: float) -> bool:
        """Whether the attempt took place.  Raises: StorageError if that cannot be found out."""
        while True:
            try:
                took_place = self._regain()
            except TakenOver:
                raise
            except StorageError as error:
                if time.monotonic() > deadline or self._closing.is_set():
                    raise UnknownOutcome(f"{error}; the next write will find out whether this one took place") from None
                time.sleep(SETTLE_PAUSE_SECONDS)
                continue
            if took_place is None:
                raise UnknownOutcome(
                    "cassandra: another instance wrote meanwhile; whether the write took place is not known"
                )
            return took_place

    def _publish(self, attempt: ApplyAttempt) -> None:
        self._in_doubt = None
        with self._applier.changed:
            self._number = attempt.layer.number
            self._directory = attempt.directory
            self._recent.apply(attempt.layer)
            self._applier.add(attempt)

    # --- who writes

    def _regain(self) -> bool | None:
        """Become the owner with a new epoch, which rules out writes of the old one that are still pending.

        Returns whether the attempt in doubt took place; None if that is unknown.  Raises: TakenOver, StorageError.
        """
        state = self._owner.read()
        was_ours = self._owner.is_ours(state) and self._is_loaded
        if not self._owner.may_take(state):
            raise self._owner.lost(state)
        state = self._owner.take(state)
        attempt = self._in_doubt
        if was_ours and state.committed == self._number:
            took_place: bool | None = False
        elif was_ours and attempt is not None and state.committed == attempt.layer.number:
            self._publish(attempt)
            took_place = True
        else:
            self._load(state)
            _log.warning("owner_again", epoch=self._owner.epoch)
            took_place = None
        self._in_doubt = None
        self._epoch_is_over = False
        return took_place

    def _load(self, state: ShardState) -> None:
        """Load the state from the journal and the tables."""
        self._is_loaded, self._epoch_is_over = False, True
        records = self._journal.records_after(state.applied)
        self._rows.apply(records)
        self._journal.drop_orphans(state, state.applied)
        sizes = self._rows.buckets()
        with self._applier.changed:
            self._number = state.committed
            self._directory = Directory(sizes)
            self._sizes, self._sizes_written = sizes, dict(sizes)
            self._recent.clear(state.committed)
            self._applier.begin(state.committed)
        self._in_doubt, self._epoch_is_over, self._is_loaded = None, False, True
        if records:
            _log.info("journal_replayed", batches=len(records), epoch=state.epoch)

    def _keep(self) -> None:
        """Confirm the ownership while nothing is written; each batch confirms it as well."""
        while not self._closing.wait(BEAT_SECONDS / 4):
            if self._owner.taken_by or not self._owner.needs_beat() or not self._write_lock.acquire(blocking=False):
                continue
            try:
                if not self._epoch_is_over:
                    self._owner.beat(self._applier.applied)
            except TakenOver as error:
                _log.error("taken_over", reason=str(error), remedy="one instance for a keyspace; stop the other")
            except StorageError as error:
                _log.info("not_confirmed", reason=str(error))
            finally:
                self._write_lock.release()

    def _check_owner(self) -> None:
        if not self._is_loaded or not self._owner.is_confirmed():
            other = self._owner.taken_by
            raise StorageError(
                f"cassandra: {other} took over; this instance refuses all calls" if other
                else "cassandra: not confirmed as the owner for too long; this ends by itself once a quorum answers"
            )  # fmt: skip

    def _check_snapshot(self, number: int) -> None:
        self._check_owner()
        if number < self._applier.floor:
            raise StorageError("cassandra: this read took too long and had to give way to newer messages; repeat it")


class RecentValues:
    """A cache of values in the newest state: every durable batch is applied to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[bytes, bytes | None] = OrderedDict()
        self._number = 0

    def get(self, key: bytes) -> tuple[bytes | Untouched | None, int]:
        """The value, or UNTOUCHED if it is not cached; and the number of the last batch, for ``keep``."""
        with self._lock:
            if key not in self._values:
                return UNTOUCHED, self._number
            self._values.move_to_end(key)
            return self._values[key], self._number

    def keep(self, key: bytes, value: bytes | None, number: int) -> None:
        """Cache a value that was read, unless a batch came between."""
        with self._lock:
            if number == self._number and (value is None or len(value) <= VALUE_BYTES_MAX):
                self._values[key] = value
                while len(self._values) > KEYS_MAX:
                    self._values.popitem(last=False)

    def apply(self, layer: Layer) -> None:
        with self._lock:
            self._number = layer.number
            if layer.ranges:
                for key in [key for key in self._values if layer.empties(key)]:
                    del self._values[key]
            for key in self._values.keys() & layer.points.keys():
                value = layer.points[key]
                if value is None or len(value) <= VALUE_BYTES_MAX:
                    self._values[key] = value
                else:
                    del self._values[key]

    def clear(self, number: int) -> None:
        with self._lock:
            self._values.clear()
            self._number = number
