"""Reads of the store, each on a fresh snapshot, in threads of their kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from fairlead_messaging.api.errors import StorageError, Unavailable
from fairlead_messaging.server.store.ordered_kv import OrderedKV, Snapshot

THREADS = 4

Result = TypeVar("Result")


class SnapshotReaders:
    """Thread pools of their own for polls, bulk pages, probes and backups, so that none waits for another kind."""

    def __init__(self, kv: OrderedKV) -> None:
        self._kv = kv
        self._pages = ThreadPoolExecutor(THREADS, "reader")
        # Bulk pages are made one after another: they are all processor, and two threads taking turns at the
        # interpreter need longer for both than one does.
        self._bulk_pages = ThreadPoolExecutor(1, "bulk-reader")
        # So that a health check does not wait behind thousands of polls.
        self._probes = ThreadPoolExecutor(1, "prober")
        # One snapshot is read for minutes: by one thread, as a store's snapshot wants it, and one at a time.
        self._copies = ThreadPoolExecutor(1, "copier")
        self._copying = False

    async def read(
        self, look: Callable[[Snapshot], Result], *, sequential: bool = False, probe: bool = False
    ) -> Result:
        """Run ``look`` on a fresh snapshot in a reader thread; ``sequential`` for bulk pages."""
        threads = self._probes if probe else self._bulk_pages if sequential else self._pages
        return await asyncio.get_running_loop().run_in_executor(threads, self._look, look, sequential)

    async def copy(self, make: Callable[[Snapshot], Generator[Result]]) -> AsyncGenerator[Result]:
        """What ``make`` yields of one snapshot, piece by piece, each made when it is requested.

        Raises: Unavailable while another runs, or when the store cannot be read.
        """
        if self._copying:
            raise Unavailable("a backup is being taken already", code="too_many_backups", retry_after_seconds=60.0)
        self._copying = True
        run = partial(asyncio.get_running_loop().run_in_executor, self._copies)
        try:
            snapshot = await run(partial(self._kv.snapshot, sequential=True))
            pieces = make(snapshot)
            try:
                while (piece := await run(next, pieces, None)) is not None:
                    yield piece
            finally:
                # In the same thread, so behind a piece that is being made.
                await asyncio.shield(run(_close, pieces, snapshot))
        except StorageError as error:
            raise Unavailable("the store cannot be read", code="storage_failed") from error
        finally:
            self._copying = False

    def _look(self, look: Callable[[Snapshot], Result], sequential: bool) -> Result:
        try:
            with self._kv.snapshot(sequential=sequential) as snapshot:
                return look(snapshot)
        except StorageError as error:
            raise Unavailable("the store cannot be read", code="storage_failed") from error

    async def close(self) -> None:
        for threads in (self._pages, self._bulk_pages, self._probes, self._copies):
            await asyncio.to_thread(threads.shutdown)


def _close(pieces: Generator[object], snapshot: Snapshot) -> None:
    pieces.close()
    snapshot.close()
