"""The journal of a shard: a partition with the owner, the number of the last batch, and the newest batches.

All its changes are conditional and in one partition, so Cassandra orders them.  It is read serially, which also
completes or rules out writes that were pending when a coordinator died.
"""

from __future__ import annotations

import copy
from typing import Any, Final, NamedTuple

import msgspec
from cassandra.query import BatchStatement, BatchType

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.cassandra.session import LAYOUT, PIECE_BYTES, SLOTS, CassandraSession
from fairlead_messaging.server.store import buckets
from fairlead_messaging.server.store.buckets import RedoRecord
from fairlead_wire.io import logs

COMMIT, BEAT, TAKE, READ = "commit", "beat", "take", "read_journal"
INLINE_BYTES: Final = 128 * 1024
"""Larger records are written in parts first; the conditional write says how many."""
PARTS_AT_ONCE: Final = 8
_STATE: Final = "layout, epoch, owner, owner_name, beat, committed, applied"

_log = logs.get("messaging.cassandra")


class ShardState(NamedTuple):
    """The state of a shard."""

    layout: int
    epoch: int
    owner: str
    """The id of the instance that writes; "" after it released the shard."""
    owner_name: str
    beat: int
    committed: int
    """Number of the last batch."""
    applied: int
    """Batches up to this number are certainly applied."""


class Journal:
    """Reads and writes the journal; knows which large batches still have parts."""

    def __init__(self, session: CassandraSession, shard: str) -> None:
        self._session = session
        self._shard = shard
        self._large: list[tuple[int, int]] = []
        prepare = session.prepare
        self._begin = prepare(
            "INSERT INTO journal (shard, layout, epoch, owner, owner_name, beat, committed, applied)"
            f" VALUES ('{shard}', {LAYOUT}, 0, '', '', 0, 0, 0) IF NOT EXISTS"
        )
        self._state = _serially(session, prepare(f"SELECT DISTINCT {_STATE} FROM journal WHERE shard = '{shard}'"))
        self._records = _serially(
            session, prepare(f"SELECT number, written_by, parts, record FROM journal WHERE shard = '{shard}'")
        )
        where = f"WHERE shard = '{shard}'"
        self._take = prepare(
            f"UPDATE journal SET epoch = ?, owner = ?, owner_name = ?, beat = ? {where}"
            f" IF epoch = ? AND layout = {LAYOUT}"
        )
        self._take_over = prepare(
            f"UPDATE journal SET epoch = ?, owner = ?, owner_name = ?, beat = ? {where}"
            f" IF epoch = ? AND layout = {LAYOUT} AND owner = ? AND beat = ? AND committed = ?"
        )
        self._beat = prepare(f"UPDATE journal SET beat = ?, applied = ? {where} IF epoch = ?")
        self._release = prepare(f"UPDATE journal SET owner = '', applied = ? {where} IF epoch = ?")
        self._commit = prepare(f"UPDATE journal SET committed = ?, applied = ? {where} IF epoch = ? AND committed = ?")
        self._record = prepare(
            f"UPDATE journal SET number = ?, written_by = ?, parts = ?, record = ? {where} AND slot = ?"
        )
        parts = "shard, epoch, number"
        self._write_part = prepare(
            f"INSERT INTO journal_parts ({parts}, part, record) VALUES ('{shard}', ?, ?, ?, ?) USING TIMESTAMP 1"
        )
        this = f"WHERE shard = '{shard}' AND epoch = ? AND number = ?"
        self._read_part = prepare(f"SELECT record FROM journal_parts {this} AND part = ?")
        # Written once and deleted once with fixed timestamps, because a clock may be set back in between.
        self._drop_parts = prepare(f"DELETE FROM journal_parts USING TIMESTAMP 2 {this}")
        self._all_parts = prepare(f"SELECT DISTINCT {parts} FROM journal_parts")

    def read(self) -> ShardState:
        """Read the state, which is created if it is missing.  Raises: StorageError."""
        found = self._session.execute(READ, self._state)
        if not found:
            self._session.execute(TAKE, self._begin)
            found = self._session.execute(READ, self._state)
        if not found:
            raise StorageError("cassandra: the journal cannot be read")
        state = ShardState(*found[0])
        if state.layout != LAYOUT:
            raise StorageError(
                f"cassandra: keyspace {self._session.model.keyspace} has tables of layout {state.layout}, and this "
                f"version knows {LAYOUT}: run the version that wrote them, or give this service another keyspace"
            )
        return state

    def take(self, state: ShardState, owner: str, name: str) -> bool:
        """Become the owner with the next epoch, which rules out pending writes of others.

        Another owner is replaced only if it has not been confirmed since ``state``: it may read for a lease after that.
        """
        changes = (state.epoch + 1, owner, name, state.beat + 1, state.epoch)
        if state.owner == owner:  # our own commit may still take place until then
            return self._applied(TAKE, self._take, changes)
        return self._applied(TAKE, self._take_over, (*changes, state.owner, state.beat, state.committed))

    def beat(self, epoch: int, beat: int, applied: int) -> bool:
        """Confirm the ownership; False if another instance is the owner."""
        if not self._applied(BEAT, self._beat, (beat, applied, epoch)):
            return False
        self._drop_applied(applied)
        return True

    def release(self, epoch: int, applied: int) -> bool:
        return self._applied(BEAT, self._release, (applied, epoch))

    def commit(self, epoch: int, number: int, applied: int, raw: bytes) -> bool:
        """Whether the batch is durable; False: another instance took over.  Raises: UnknownOutcome, StorageError."""
        parts = 0
        if len(raw) > INLINE_BYTES:
            cut = list(buckets.value_pieces(raw, PIECE_BYTES))
            parts = len(cut)
            self._session.execute_all(
                "write_parts",
                (self._write_part.bind((epoch, number, part, piece)) for part, piece in enumerate(cut)),
                PARTS_AT_ONCE,
            )
            raw = b""
        batch = BatchStatement(
            BatchType.UNLOGGED, consistency_level=self._session.consistency,
            serial_consistency_level=self._session.serial,
        )  # fmt: skip
        batch.add(self._commit, (number, applied, epoch, number - 1))
        batch.add(self._record, (number, epoch, parts, raw, number % SLOTS))
        if not self._applied(COMMIT, batch, None):
            return False
        self._drop_applied(applied)
        if parts:
            self._large.append((epoch, number))
        return True

    def records_after(self, number: int) -> list[RedoRecord]:
        """The records with larger numbers, in order."""
        rows = sorted(
            row for row in self._session.execute(READ, self._records) if row[0] is not None and row[0] > number
        )
        return [self._whole(*row) for row in rows]

    def drop_orphans(self, state: ShardState, kept: int) -> None:
        """Delete parts of failed or applied batches: those of earlier epochs with numbers up to ``kept``."""
        for shard, epoch, number in self._session.execute(READ, self._all_parts):
            if shard == self._shard and epoch < state.epoch and (number <= kept or number > state.committed):
                self._session.execute("drop_parts", self._drop_parts, (epoch, number))

    def _drop_applied(self, applied: int) -> None:
        """Delete parts that the journal records as applied, which no instance will need again."""
        while self._large and self._large[0][1] <= applied:
            try:
                self._session.execute("drop_parts", self._drop_parts, self._large[0])
            except StorageError as error:
                _log.info("parts_not_dropped", reason=str(error))  # the next owner deletes them
            self._large.pop(0)

    def _whole(self, number: int, epoch: int, parts: int, raw: bytes) -> RedoRecord:
        if parts:
            found = []
            for part in range(parts):
                rows = self._session.execute(READ, self._read_part, (epoch, number, part))
                if not rows:
                    raise StorageError(
                        f"cassandra: part {part} of {parts} of batch {number} is missing from the journal"
                    )
                found.append(rows[0][0])
            raw = b"".join(found)
        try:
            return buckets.decode_record(raw)
        except msgspec.MsgspecError as error:
            raise StorageError(f"cassandra: batch {number} in the journal cannot be read: {error}") from error

    def _applied(self, operation: str, statement: Any, values: tuple[Any, ...] | None) -> bool:
        return bool(self._session.execute(operation, statement, values)[0][0])


def _serially(session: CassandraSession, prepared: Any) -> Any:
    serial = copy.copy(prepared)
    serial.consistency_level = session.serial
    return serial
