"""Reads of the store, each on a fresh snapshot, in a thread pool for its kind."""

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
    """Separate thread pools for polls, bulk pages, probes and backups, so that none waits for another kind."""

    def __init__(self, kv: OrderedKV) -> None:
        self._kv = kv
        self._pages = ThreadPoolExecutor(THREADS, "reader")
        # One thread for bulk pages: they are bound by the processor, and two threads that contend for the interpreter
        # are slower than one.
        self._bulk_pages = ThreadPoolExecutor(1, "bulk-reader")
        # So that a health check does not wait behind thousands of polls.
        self._probes = ThreadPoolExecutor(1, "prober")
        # A backup reads one snapshot for minutes: in a single thread, as snapshots require, and one at a time.
        self._copies = ThreadPoolExecutor(1, "copier")
        self._copying = False

    async def read(
        self, query: Callable[[Snapshot], Result], *, sequential: bool = False, probe: bool = False
    ) -> Result:
        """Run ``query`` on a fresh snapshot in a reader thread; ``sequential`` for bulk pages."""
        threads = self._probes if probe else self._bulk_pages if sequential else self._pages
        return await asyncio.get_running_loop().run_in_executor(threads, self._run, query, sequential)

    async def copy(self, make: Callable[[Snapshot], Generator[Result]]) -> AsyncGenerator[Result]:
        """Yield what ``make`` yields from one snapshot; each piece is made when it is requested.

        Raises: Unavailable while another copy runs, or if the store cannot be read.
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
                # In the same thread, and so after a piece that is being made.
                await asyncio.shield(run(_close, pieces, snapshot))
        except StorageError as error:
            raise Unavailable("the store cannot be read", code="storage_failed") from error
        finally:
            self._copying = False

    def _run(self, query: Callable[[Snapshot], Result], sequential: bool) -> Result:
        try:
            with self._kv.snapshot(sequential=sequential) as snapshot:
                return query(snapshot)
        except StorageError as error:
            raise Unavailable("the store cannot be read", code="storage_failed") from error

    async def close(self) -> None:
        for threads in (self._pages, self._bulk_pages, self._probes, self._copies):
            await asyncio.to_thread(threads.shutdown)


def _close(pieces: Generator[object], snapshot: Snapshot) -> None:
    pieces.close()
    snapshot.close()
