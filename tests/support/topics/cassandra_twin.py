"""What the store on Cassandra asks of it, in memory: one journal and one set of rows that several instances share.

What goes wrong is said before: `lost` (a write takes place, the answer does not come), `never` (it does not arrive).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.cassandra.journal import Journal, ShardState
from fairlead_messaging.server.io.stores.cassandra.rows import BucketRows
from fairlead_messaging.server.io.stores.cassandra.session import SLOTS, UnknownOutcome
from fairlead_messaging.server.store.buckets import Directory, RedoRecord, decode_record
from fairlead_messaging.server.store.layer import Row


class Disk:
    """Everything that outlives an instance."""

    def __init__(self) -> None:
        self.state = ShardState(1, 0, "", "", 0, 0, 0)
        self.slots: dict[int, tuple[int, bytes]] = {}
        self.buckets: dict[bytes, tuple[int, int | None]] = {}
        """Time and size; None: gone."""
        self.dropped: dict[bytes, int] = {}
        self.ranges: dict[bytes, list[tuple[int, bytes, bytes]]] = {}
        self.rows: dict[tuple[bytes, bytes], tuple[int, bytes | None]] = {}
        self.fates: list[str] = []
        self.is_down = False

    def journal(self) -> Journal:
        return cast(Journal, TwinJournal(self))

    def stored(self) -> BucketRows:
        return cast(BucketRows, TwinRows(self))

    def met(self, write: Callable[[], bool]) -> bool:
        if self.is_down:
            raise StorageError("no node answers")
        fate = self.fates.pop(0) if self.fates else ""
        if fate == "never":
            raise UnknownOutcome("no answer")
        done = write()
        if fate == "lost":
            raise UnknownOutcome("no answer")
        return done


class TwinJournal:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def read(self) -> ShardState:
        if self._disk.is_down:
            raise StorageError("no node answers")
        return self._disk.state

    def take(self, state: ShardState, owner: str, name: str) -> bool:
        changes = {"epoch": state.epoch + 1, "owner": owner, "owner_name": name, "beat": state.beat + 1}

        def write() -> bool:
            now = self._disk.state
            if state.owner != owner and (now.owner, now.beat, now.committed) != (
                state.owner, state.beat, state.committed,
            ):  # fmt: skip
                return False
            return self._set(state.epoch, changes)

        return self._disk.met(write)

    def beat(self, epoch: int, beat: int, applied: int) -> bool:
        return self._disk.met(lambda: self._set(epoch, {"beat": beat, "applied": applied}))

    def release(self, epoch: int, applied: int) -> bool:
        return self._disk.met(lambda: self._set(epoch, {"owner": "", "applied": applied}))

    def commit(self, epoch: int, number: int, applied: int, raw: bytes) -> bool:
        def write() -> bool:
            if self._disk.state.committed != number - 1:
                return False
            if not self._set(epoch, {"committed": number, "applied": applied}):
                return False
            self._disk.slots[number % SLOTS] = (number, raw)
            return True

        return self._disk.met(write)

    def records_after(self, number: int) -> list[RedoRecord]:
        return [decode_record(raw) for found, raw in sorted(self._disk.slots.values()) if found > number]

    def drop_orphans(self, state: ShardState, kept: int) -> None:
        pass

    def _set(self, epoch: int, changes: dict[str, Any]) -> bool:
        if self._disk.state.epoch != epoch:
            return False
        self._disk.state = self._disk.state._replace(**changes)
        return True


class TwinRows:
    """As Cassandra does it: of two changes the later time stands, and at the same time a deletion."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def apply(self, records: Sequence[RedoRecord]) -> None:
        disk = self._disk
        for record in records:
            for low, size in record.sizes.items():
                if disk.buckets.get(low, (0, None))[0] < record.row_time:
                    disk.buckets[low] = (record.row_time, size)
            for low in record.dropped:
                disk.dropped[low] = max(record.range_time, disk.dropped.get(low, 0))
                if disk.buckets.get(low, (0, None))[0] <= record.range_time:
                    disk.buckets[low] = (record.range_time, None)
            for changes in record.buckets:
                for low, high in changes.ranges:
                    disk.ranges.setdefault(changes.bucket, []).append((record.range_time, low, high))
                for key, value in changes.rows:
                    held = disk.rows.get((changes.bucket, key), (0, None))
                    if held[0] < record.row_time:
                        disk.rows[changes.bucket, key] = (record.row_time, value)

    def buckets(self) -> dict[bytes, int]:
        return {low: size for low, (_, size) in self._disk.buckets.items() if size is not None}

    def scan(self, directory: Directory, low: bytes, high: bytes, check: Callable[[], None]) -> Iterator[Row]:
        for bucket, first, last in directory.spans(low, high):
            found = sorted(
                (key, value)
                for (there, key), (time, value) in tuple(self._disk.rows.items())  # the applier writes meanwhile
                if there == bucket and first <= key < last and value is not None and self._lives(bucket, key, time)
            )
            check()
            yield from found

    def last_below(self, directory: Directory, low: bytes, high: bytes, check: Callable[[], None]) -> bytes | None:
        found = list(self.scan(directory, low, high, check))
        return found[-1][0] if found else None

    def _lives(self, bucket: bytes, key: bytes, time: int) -> bool:
        emptied = self._disk.ranges.get(bucket, ())
        return time > self._disk.dropped.get(bucket, 0) and not any(
            at >= time and low <= key < high for at, low, high in emptied
        )
