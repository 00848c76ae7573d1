"""Periodically removes rows that no reader can see any more, topic by topic, through the single writer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from fairlead_messaging.api import error_codes
from fairlead_messaging.api.errors import StorageError, Unavailable
from fairlead_messaging.server import retention
from fairlead_messaging.server.commands import RemoveRows
from fairlead_messaging.server.io.committer import Committer
from fairlead_messaging.server.io.snapshot_readers import SnapshotReaders
from fairlead_messaging.server.log import topics
from fairlead_messaging.server.retention import ClockJumpGuard
from fairlead_messaging.server.store.ordered_kv import OrderedKV
from fairlead_messaging.server.transactions.commands import PruneTransactions
from fairlead_wire.io import logs

_log = logs.get("messaging.cleaner")


class Cleaner:
    """``run`` it as a task; ``clean`` makes one pass."""

    def __init__(
        self, kv: OrderedKV, committer: Committer, readers: SnapshotReaders, now_ms: Callable[[], int]
    ) -> None:
        self._kv = kv
        self._committer = committer
        self._readers = readers
        self._now_ms = now_ms
        self._threads = ThreadPoolExecutor(1, "cleaner")
        self.removed_rows = 0
        self.cleanups = 0

    async def run(self, interval_seconds: float) -> None:
        """Clean forever, except while the clock may have jumped ahead, because removal is permanent."""
        guard = ClockJumpGuard(self._now_ms(), _steady_ms())
        while True:
            await asyncio.sleep(interval_seconds)
            now_ms = self._now_ms()
            if not guard.is_safe(now_ms, _steady_ms()):
                _log.warning("cleanup_waits", reason="the clock jumped ahead")
                continue
            try:
                await self.clean(now_ms)
            except (Unavailable, StorageError) as error:
                _log.warning("cleanup_failed", reason=str(error))

    async def clean(self, now_ms: int | None = None) -> None:
        """Remove from every topic what cannot be read any more at ``now_ms``, by default the time of the clock.

        The whole pass uses that one time, which was found to be safe: the clock may jump during the pass.
        """
        now_ms = self._now_ms() if now_ms is None else now_ms
        await self._prune_transactions()
        for topic in await self._readers.read(topics.every):
            emptied: dict[bytes, tuple[bytes, bytes]] = {}
            more, resume = True, b""
            while more:
                found = await self._readers.read(partial(retention.sweep, topic=topic, now_ms=now_ms, resume=resume))
                more, resume = found.more, found.resume
                if not len(found.batch) and not found.silent:
                    continue
                await self._committer.submit(RemoveRows(batch=found.batch, silent=found.silent), found.batch.size)
                self.removed_rows += len(found.batch) + len(found.silent)
                for low, high in found.emptied:
                    # One range for each table, and only at the end: a compaction reads everything in its range.
                    before = emptied.get(low[:1], (low, high))
                    emptied[low[:1]] = (min(low, before[0]), max(high, before[1]))
            for low, high in emptied.values():
                await asyncio.get_running_loop().run_in_executor(self._threads, self._kv.compact, low, high)
        await asyncio.get_running_loop().run_in_executor(self._threads, self._kv.reclaim)
        self.cleanups += 1

    async def _prune_transactions(self) -> None:
        try:
            while await self._committer.submit(PruneTransactions()):
                continue
        except Unavailable as error:
            if error.code != error_codes.TRANSACTIONS_UNAVAILABLE:
                raise
            _log.warning("transactions_not_pruned", reason=error.message)

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)


def _steady_ms() -> int:
    return time.monotonic_ns() // 1_000_000
