"""The running service: the store, its one writer, and readers in threads."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from fairlead_messaging.api.errors import Conflict, StorageError, Unavailable
from fairlead_messaging.server import retention
from fairlead_messaging.server.clock_guard import ClockJumpGuard
from fairlead_messaging.server.commands import Command, CreateTopic, RemoveRows
from fairlead_messaging.server.io.committer import Committer
from fairlead_messaging.server.io.notifier import Notifier
from fairlead_messaging.server.log import keys, reader, topics
from fairlead_messaging.server.log.topic import Topic, expand_system_topics
from fairlead_messaging.server.memory_budget import MemoryBudget
from fairlead_messaging.server.page_cache import CachedPage, PageCache, PageKey
from fairlead_messaging.server.service import Service
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_messaging.server.store.batch import Batch
from fairlead_messaging.server.store.ordered_kv import OrderedKV, Snapshot
from fairlead_messaging.server.transactions.commands import (
    ExpireTransactions,
    MarkAborted,
    PruneTransactions,
    Rollback,
    TransactionCommand,
)
from fairlead_wire.io import logs

READER_THREADS = 4
SYSTEM_NAMESPACE = "system"
TEND_SECONDS_MAX = 0.25
"""How late a transaction's timeout may be noticed after the clock was moved."""

PROBE_SECONDS = 5.0
"""A write so long ago says nothing about the disk as it is."""

_log = logs.get("messaging.broker")

Result = TypeVar("Result")


class Broker:
    """What the HTTP handlers call.  Create it inside the running loop; ``close`` drains."""

    def __init__(self, kv: OrderedKV, settings: MessagingSettings, now_ms: Callable[[], int], new_id: str) -> None:
        self.settings = settings
        self.now_ms = now_ms
        self._kv = kv
        self._notifier = Notifier()
        self._readers = ThreadPoolExecutor(READER_THREADS, "reader")
        self._cache = PageCache(settings.cache.max_bytes)
        self._cache_lock = threading.Lock()
        self.bodies = MemoryBudget(settings.bodies_bytes_max, "too_many_bodies")
        self.pages = MemoryBudget(settings.pages_bytes_max, "too_many_pages")
        # Bulk pages are made one after another: they are all processor, and two threads taking turns at the
        # interpreter need longer for both than one does.
        self._bulk_reader = ThreadPoolExecutor(1, "bulk-reader")
        self._cleaner = ThreadPoolExecutor(1, "cleaner")
        # Of its own, so that who asks how the service is does not wait behind thousands of polls.
        self._prober = ThreadPoolExecutor(1, "prober")
        self._service = Service(kv)
        self._committer = Committer(kv, self._service, now_ms, self._notifier.notify)
        self._chores = asyncio.Event()
        self._tasks = [asyncio.create_task(self._tend()), asyncio.create_task(self._clean())]
        self.removed_rows = 0
        self.cleanups = 0
        self.service_id = self._mint_service_id(new_id)
        self.closing = False

    def _mint_service_id(self, new_id: str) -> str:
        """The id of this data directory: ``new_id`` the first time, the same ever after."""
        key = keys.service("id")
        self._kv.compare_and_set(key, None, new_id.encode())
        found = self._kv.get(key)
        assert found is not None
        return found.decode()

    async def create_system_topics(self) -> None:
        for name in expand_system_topics(self.settings.system_topics):
            try:
                await self.change(
                    CreateTopic(
                        namespace=SYSTEM_NAMESPACE,
                        name=name,
                        ttl_seconds=self.settings.default_ttl_seconds,
                        properties={},
                    )
                )
            except Conflict:
                continue  # created at an earlier start

    async def change(self, command: Command[Result], size: int = 0) -> Result:
        """The command's answer, durable.  Raises MessagingError."""
        answer = await self._committer.submit(command, size)
        if isinstance(command, TransactionCommand):
            self._chores.set()
        elif isinstance(command, Rollback):
            self._chores.set()
            while any(each.pointer == command.pointer for each in self._service.transactions.rolling):
                await self._committer.submit(MarkAborted())
        return answer

    async def _tend(self) -> None:
        """End transactions whose time is up, and mark the rows of aborted ones."""
        self._chores.set()  # what an earlier run left behind
        while True:
            transactions = self._service.transactions
            expiry = transactions.next_expiry_ms()
            if not self._chores.is_set() and (expiry is None or expiry >= self.now_ms()):
                # Not simply the time until expiry: the clock may step meanwhile, and whoever began or ended a
                # transaction may have hung up before it was done.
                due_seconds = TEND_SECONDS_MAX if expiry is None else (expiry + 1 - self.now_ms()) / 1000
                timeout = min(due_seconds, TEND_SECONDS_MAX)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._chores.wait(), timeout)
            self._chores.clear()
            try:
                if expiry is not None and expiry < self.now_ms():
                    await self._committer.submit(ExpireTransactions())
                while self._service.transactions.unmarked or self._service.transactions.rolling:
                    await self._committer.submit(MarkAborted())
            except Unavailable as error:
                _log.warning("transactions_not_tended", reason=error.message)
                self._chores.set()
                await asyncio.sleep(error.retry_after_seconds)

    async def _clean(self) -> None:
        watch = ClockJumpGuard(self.now_ms(), _steady_ms())
        while True:
            await asyncio.sleep(self.settings.cleanup.interval_seconds)
            if not watch.look(self.now_ms(), _steady_ms()):
                _log.warning("cleanup_waits", reason="the clock jumped ahead")
                continue
            try:
                await self.clean()
            except (Unavailable, StorageError) as error:
                _log.warning("cleanup_failed", reason=str(error))

    async def clean(self) -> None:
        """One pass over every topic: remove what nobody can read any more."""
        while await self._committer.submit(PruneTransactions()):
            continue
        for topic in await self.read(topics.every):
            emptied: dict[bytes, tuple[bytes, bytes]] = {}
            more, resume = True, b""
            while more:
                found = await self.read(partial(retention.sweep, topic=topic, now_ms=self.now_ms(), resume=resume))
                more, resume = found.more, found.resume
                if not len(found.batch) and not found.silent:
                    continue
                await self._committer.submit(RemoveRows(batch=found.batch, silent=found.silent), found.batch.size)
                self.removed_rows += len(found.batch) + len(found.silent)
                for low, high in found.emptied:
                    # One range a table, and only once at the end: each compaction reads all that lies in it.
                    before = emptied.get(low[:1], (low, high))
                    emptied[low[:1]] = (min(low, before[0]), max(high, before[1]))
            for low, high in emptied.values():
                await asyncio.get_running_loop().run_in_executor(self._cleaner, self._kv.compact, low, high)
        await asyncio.get_running_loop().run_in_executor(self._cleaner, self._kv.reclaim)
        self.cleanups += 1

    async def read(
        self, look: Callable[[Snapshot], Result], *, sequential: bool = False, probe: bool = False
    ) -> Result:
        """Run ``look`` on a fresh snapshot in a reader thread; ``sequential`` for bulk pages."""
        threads = self._prober if probe else self._bulk_reader if sequential else self._readers
        return await asyncio.get_running_loop().run_in_executor(threads, self._look, look, sequential)

    def _look(self, look: Callable[[Snapshot], Result], sequential: bool) -> Result:
        try:
            with self._kv.snapshot(sequential=sequential) as snapshot:
                return look(snapshot)
        except StorageError as error:
            raise Unavailable("the store cannot be read", code="storage_failed") from error

    def topic(self, namespace: str, name: str) -> Topic:
        """The living topic as it stands on disk.  Raises NotFound, Refused."""
        try:
            return topics.lookup(self._kv, namespace, name)
        except StorageError as error:
            raise Unavailable("the store cannot be read", code="storage_failed") from error

    def cached(self, topic: Topic, asked: PageKey) -> CachedPage | None:
        """A page that another reader got before, if the store would still answer the same."""
        try:
            high = self._kv.get(keys.log_end(topic))
        except StorageError as error:
            raise Unavailable("the store cannot be read", code="storage_failed") from error
        with self._cache_lock:
            return self._cache.get(asked, reader.oldest_live(topic, self.now_ms()), high)

    def keep(self, asked: PageKey, page: CachedPage) -> None:
        """Called by reader threads."""
        with self._cache_lock:
            self._cache.put(asked, page)

    @property
    def cache(self) -> PageCache:
        return self._cache

    async def read_until(
        self,
        topic: tuple[str, str],
        look: Callable[[Snapshot], Result],
        is_enough: Callable[[Result], bool],
        wait_ms: int,
    ) -> Result:
        """Look, and look again whenever the topic changes, until it is enough or ``wait_ms`` have passed.

        Raises: Unavailable when it would have to wait and ``long_polls_max`` do so already.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        crowded = self._notifier.waiting >= self.settings.long_polls_max
        while True:
            changed = self._notifier.subscribe(topic) if wait_ms and not crowded else None
            try:
                found = await self.read(look)
                remaining = deadline - loop.time()
                if remaining <= 0 or self.closing or is_enough(found):
                    return found
                if changed is None:
                    raise Unavailable(
                        f"{self.settings.long_polls_max} readers are waiting already", code="too_many_long_polls"
                    )
                await asyncio.wait((changed,), timeout=remaining)
            finally:
                if changed is not None:
                    changed.cancel()

    @property
    def in_progress(self) -> int:
        """Transactions that may still publish."""
        return len(self._service.transactions.in_progress)

    @property
    def unmarked(self) -> int:
        """Aborted transactions whose rows are not all marked yet."""
        return len(self._service.transactions.unmarked)

    @property
    def waiting(self) -> int:
        return self._committer.waiting

    @property
    def batches(self) -> int:
        return self._committer.batches

    async def is_writable(self) -> bool:
        """Whether writes reach the disk: the last one, if it was just now; else one more is tried."""
        if not self._committer.healthy or time.monotonic() - self._committer.written_at > PROBE_SECONDS:
            probe = Batch()
            probe.put(keys.service("probe"), b"")
            try:
                await self._committer.submit(RemoveRows(batch=probe))
            except Unavailable:
                return False
        return True

    @property
    def failures(self) -> int:
        return self._committer.failures

    @property
    def long_polls(self) -> int:
        return self._notifier.waiting

    def stop_waiting(self) -> None:
        """Long polls answer now, so that stopping does not wait for them."""
        self.closing = True
        self._notifier.notify_all()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._committer.close()
        for threads in (self._readers, self._bulk_reader, self._cleaner, self._prober):
            await asyncio.to_thread(threads.shutdown)
        self._kv.close()


def _steady_ms() -> int:
    return time.monotonic_ns() // 1_000_000
