"""The running service: connects the store, its single writer, reader threads and background work."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TypeVar

from fairlead_messaging.api.errors import Conflict, StorageError, Unavailable
from fairlead_messaging.server.admission import MemoryBudget
from fairlead_messaging.server.commands import Command, CreateTopic, RemoveRows
from fairlead_messaging.server.io.cleaner import Cleaner
from fairlead_messaging.server.io.committer import Committer
from fairlead_messaging.server.io.snapshot_readers import SnapshotReaders
from fairlead_messaging.server.io.transaction_keeper import TransactionKeeper
from fairlead_messaging.server.log import keys, reader, topics
from fairlead_messaging.server.log.topic import TopicGeneration, expand_system_topics
from fairlead_messaging.server.page_cache import CachedPage, PageCache, PageKey
from fairlead_messaging.server.quotas import Quotas
from fairlead_messaging.server.service import Service
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV, Snapshot
from fairlead_messaging.server.transactions.commands import Rollback, TransactionCommand
from fairlead_messaging.server.transactions.transaction import TransactionsUnavailable, TransactionView
from fairlead_wire.io import logs

Name = tuple[str, str]


SYSTEM_NAMESPACE = "system"

PROBE_SECONDS = 5.0
"""How long a successful write counts as evidence that the disk works."""

_log = logs.get("messaging.broker")

Result = TypeVar("Result")


class Broker:
    """What the HTTP handlers call.  Create it in the running event loop; ``close`` waits for accepted work."""

    def __init__(self, kv: OrderedKV, settings: MessagingSettings, now_ms: Callable[[], int], new_id: str) -> None:
        self.settings = settings
        self.now_ms = now_ms
        self._kv = kv
        self.notifier = Notifier()
        self._readers = SnapshotReaders(kv)
        self.cache = PageCache(settings.cache.max_bytes)
        self._cache_lock = threading.Lock()
        self.bodies = MemoryBudget(settings.bodies_bytes_max, "too_many_bodies")
        self.pages = MemoryBudget(settings.pages_bytes_max, "too_many_pages")
        self.transaction_limits = settings.transactions.limits
        self.quotas = Quotas(settings.quotas)
        self._service = Service(kv, self.transaction_limits, lambda namespace: self.quotas.of(namespace).topics)
        self.committer = Committer(kv, self._service, now_ms, self.notifier.notify)
        self.keeper = TransactionKeeper(self.committer, self._service, now_ms)
        self.cleaner = Cleaner(kv, self.committer, self._readers, now_ms)
        self._tasks = [
            asyncio.create_task(self.keeper.run()),
            asyncio.create_task(self.cleaner.run(settings.cleanup.interval_seconds)),
        ]
        self.service_id = self._mint_service_id(new_id)
        self.closing = False

    def _mint_service_id(self, new_id: str) -> str:
        """The id of this data directory: ``new_id`` at the first start, and the same from then on."""
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
        """Run a command; its answer is durable.  Raises MessagingError."""
        answer = await self.committer.submit(command, size)
        if isinstance(command, TransactionCommand | Rollback):
            self.keeper.notify()
        if isinstance(command, Rollback):
            await self.keeper.finish_rollback(command.pointer)
        return answer

    async def read(
        self, query: Callable[[Snapshot], Result], *, sequential: bool = False, probe: bool = False
    ) -> Result:
        """Run ``query`` on a fresh snapshot in a reader thread, as ``SnapshotReaders.read``."""
        return await self._readers.read(query, sequential=sequential, probe=probe)

    def copy(self, make: Callable[[Snapshot], Generator[Result]]) -> AsyncGenerator[Result]:
        """As ``SnapshotReaders.copy``."""
        return self._readers.copy(make)

    def topic(self, namespace: str, name: str) -> TopicGeneration:
        """The current generation of a topic on disk.  Raises NotFound, Refused."""
        try:
            return topics.lookup(self._kv, namespace, name)
        except StorageError as error:
            raise Unavailable("the store cannot be read", code="storage_failed") from error

    def cached(self, topic: TopicGeneration, key: PageKey, isolation: str) -> CachedPage | None:
        """A page that was read before, if the store would still give the same answer."""
        try:
            log_end = self._kv.get(keys.log_end(topic))
        except StorageError as error:
            raise Unavailable("the store cannot be read", code="storage_failed") from error
        with self._cache_lock:
            now_ms = self.now_ms()
            oldest_live = reader.oldest_live(topic, now_ms)
            return self.cache.get(key, isolation, oldest_live=oldest_live, log_end=log_end, now_ms=now_ms)

    def keep(self, key: PageKey, isolation: str, page: CachedPage) -> None:
        """Called by reader threads."""
        with self._cache_lock:
            self.cache.put(key, isolation, page)

    async def read_until(
        self,
        topic: tuple[str, str],
        query: Callable[[Snapshot], Result],
        is_enough: Callable[[Result], bool],
        wait_ms: int,
    ) -> Result:
        """Read, again whenever the topic changes, until the answer is enough or ``wait_ms`` have passed.

        Raises: Unavailable if it had to wait while ``long_polls_max`` others do.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        crowded = self.notifier.waiting >= self.settings.long_polls_max
        while True:
            changed = self.notifier.subscribe(topic) if wait_ms and not crowded else None
            try:
                found = await self.read(query)
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
        """How many transactions may still publish, as far as known."""
        manager = self._service.transaction_service.present
        return len(manager.in_progress) if manager is not None else 0

    @property
    def oldest_start_ms(self) -> int | None:
        """When the oldest of these began; None if there is none."""
        manager = self._service.transaction_service.present
        return manager.oldest_start_ms if manager is not None else None

    @property
    def unmarked(self) -> int:
        """How many aborted transactions have rows that are not marked yet, as far as known."""
        manager = self._service.transaction_service.present
        return len(manager.unmarked) if manager is not None else 0

    @property
    def transaction_failures(self) -> int:
        """How often the transaction tables could not be read, or the transaction manager failed."""
        return self._service.transaction_service.failures

    async def transactions_trouble(self) -> str:
        """Why calls that need transactions are refused; "" if they are not."""
        reason = self._service.transaction_service.reason
        if not reason:
            try:
                await self.read(TransactionView, probe=True)
            except TransactionsUnavailable as error:
                reason = error.reason
        return reason

    async def is_writable(self) -> bool:
        """Whether writes reach the disk: judged by the last write if it was recent, else by a probe."""
        if not self.committer.healthy or time.monotonic() - self.committer.written_at > PROBE_SECONDS:
            probe = Batch()
            probe.put(keys.service("probe"), b"")
            try:
                await self.committer.submit(RemoveRows(batch=probe))
            except Unavailable:
                return False
        return True

    def stop_waiting(self) -> None:
        """Let all long polls answer now, so that stopping does not wait for them."""
        self.closing = True
        self.notifier.notify_all()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.committer.close()
        await self._readers.close()
        await self.cleaner.close()
        self._kv.close()


class Notifier:
    """Wakes long-polling readers when their topic changes.

    Readers subscribe *before* they read, so that they miss nothing between reading and waiting.
    """

    def __init__(self) -> None:
        self._waiting: dict[Name, set[asyncio.Future[None]]] = {}

    def subscribe(self, name: Name) -> asyncio.Future[None]:
        """Done at the next change of this topic; cancel it when no longer needed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, set()).add(future)
        future.add_done_callback(lambda done: self._leave(name, done))
        return future

    def notify(self, names: set[Name]) -> None:
        for name in names:
            for future in tuple(self._waiting.get(name, ())):
                if not future.done():
                    future.set_result(None)

    def notify_all(self) -> None:
        self.notify(set(self._waiting))

    @property
    def waiting(self) -> int:
        return sum(len(futures) for futures in self._waiting.values())

    def _leave(self, name: Name, future: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting.discard(future)
            if not waiting:
                del self._waiting[name]
