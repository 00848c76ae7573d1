"""Reads of the store, each on a fresh snapshot, in threads of their kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fairlead_messaging.api.errors import StorageError, Unavailable
from fairlead_messaging.server.store.ordered_kv import OrderedKV, Snapshot

THREADS = 4

Result = TypeVar("Result")


class SnapshotReaders:
    """Polls, bulk pages and probes do not wait behind each other."""

    def __init__(self, kv: OrderedKV) -> None:
        self._kv = kv
        self._pages = ThreadPoolExecutor(THREADS, "reader")
        # Bulk pages are made one after another: they are all processor, and two threads taking turns at the
        # interpreter need longer for both than one does.
        self._bulk_pages = ThreadPoolExecutor(1, "bulk-reader")
        # Of their own, so that a question how the service is does not wait behind thousands of polls.
        self._probes = ThreadPoolExecutor(1, "prober")

    async def read(
        self, look: Callable[[Snapshot], Result], *, sequential: bool = False, probe: bool = False
    ) -> Result:
        """Run ``look`` on a fresh snapshot in a reader thread; ``sequential`` for bulk pages."""
        threads = self._probes if probe else self._bulk_pages if sequential else self._pages
        return await asyncio.get_running_loop().run_in_executor(threads, self._look, look, sequential)

    def _look(self, look: Callable[[Snapshot], Result], sequential: bool) -> Result:
        try:
            with self._kv.snapshot(sequential=sequential) as snapshot:
                return look(snapshot)
        except StorageError as error:
            raise Unavailable("the store cannot be read", code="storage_failed") from error

    async def close(self) -> None:
        for threads in (self._pages, self._bulk_pages, self._probes):
            await asyncio.to_thread(threads.shutdown)
