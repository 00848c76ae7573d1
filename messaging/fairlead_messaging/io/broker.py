"""The running service: the store, its one writer, and readers in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fairlead_messaging import keys, topics
from fairlead_messaging.commands import Command, CreateTopic
from fairlead_messaging.errors import Conflict, StorageError, Unavailable
from fairlead_messaging.io.bell import Bell
from fairlead_messaging.io.committer import Committer
from fairlead_messaging.kv import Batch, OrderedKV, Snapshot
from fairlead_messaging.service import Service
from fairlead_messaging.settings import MessagingSettings
from fairlead_messaging.topic import Topic, expand_system_topics

READER_THREADS = 4
SYSTEM_NAMESPACE = "system"

Result = TypeVar("Result")


class Broker:
    """What the HTTP handlers call.  Create it inside the running loop; ``close`` drains."""

    def __init__(self, kv: OrderedKV, settings: MessagingSettings, now_ms: Callable[[], int], new_id: str) -> None:
        self.settings = settings
        self.now_ms = now_ms
        self._kv = kv
        self._bell = Bell()
        self._readers = ThreadPoolExecutor(READER_THREADS, "reader")
        self._committer = Committer(kv, Service(kv), now_ms, self._bell.ring)
        self.service_id = self._mint_service_id(new_id)
        self.closing = False

    def _mint_service_id(self, new_id: str) -> str:
        """The id of this data directory: ``new_id`` the first time, the same ever after."""
        key = keys.service("id")
        found = self._kv.get(key)
        if found is not None:
            return found.decode()
        batch = Batch()
        batch.put(key, new_id.encode())
        self._kv.apply(batch)
        return new_id

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

    async def change(self, command: Command, size: int = 0) -> Any:
        """The command's answer, durable.  Raises MessagingError."""
        return await self._committer.submit(command, size)

    async def read(self, look: Callable[[Snapshot], Result]) -> Result:
        """Run ``look`` on a fresh snapshot in a reader thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._look, look)

    def _look(self, look: Callable[[Snapshot], Result]) -> Result:
        try:
            with self._kv.snapshot() as snapshot:
                return look(snapshot)
        except StorageError as error:
            raise Unavailable("the store cannot be read", code="storage_failed") from error

    def topic(self, namespace: str, name: str) -> Topic:
        """The living topic as it stands on disk.  Raises NotFound, Refused."""
        try:
            return topics.lookup(self._kv, namespace, name)
        except StorageError as error:
            raise Unavailable("the store cannot be read", code="storage_failed") from error

    async def read_until(
        self,
        topic: tuple[str, str],
        look: Callable[[Snapshot], Result],
        is_enough: Callable[[Result], bool],
        wait_ms: int,
    ) -> Result:
        """Look, and look again whenever the topic changes, until it is enough or ``wait_ms`` have passed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        while True:
            bell = self._bell.listen(topic) if wait_ms else None
            try:
                found = await self.read(look)
                remaining = deadline - loop.time()
                if bell is None or remaining <= 0 or self.closing or is_enough(found):
                    return found
                await asyncio.wait((bell,), timeout=remaining)
            finally:
                if bell is not None:
                    bell.cancel()

    @property
    def waiting(self) -> int:
        return self._committer.waiting

    @property
    def batches(self) -> int:
        return self._committer.batches

    @property
    def failures(self) -> int:
        return self._committer.failures

    @property
    def listeners(self) -> int:
        return self._bell.listeners

    def stop_waiting(self) -> None:
        """Long polls answer now, so that stopping does not wait for them."""
        self.closing = True
        self._bell.ring_all()

    async def close(self) -> None:
        await self._committer.close()
        await asyncio.get_running_loop().run_in_executor(None, self._readers.shutdown)
        self._kv.close()
