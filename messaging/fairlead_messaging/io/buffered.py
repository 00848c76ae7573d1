"""Publishing without waiting: messages gather and go out together; what does not fit is dropped and counted.

For telling, not for promising: ``publish`` never blocks and never fails, and the service's answer is seen only in
the counts.  Repeats after a lost answer store nothing twice, because the publisher numbers its messages.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from fairlead_messaging.io.client import MessagingClient, Producer
from fairlead_wire.errors import Permanent, Temporary
from fairlead_wire.io import logs

WAITING_MESSAGES_MAX = 10_000
WAITING_BYTES_MAX = 16 * 1024 * 1024
BATCH_MESSAGES_MAX = 1000
RETRY_SECONDS = 1.0

_log = logs.get("messaging.buffered")


class BufferedPublisher:
    """One topic.  ``producer_id`` and ``epoch`` name this run of this publisher; use a new epoch each time."""

    def __init__(
        self,
        client: MessagingClient,
        namespace: str,
        name: str,
        *,
        producer_id: str,
        epoch: int,
        waiting_messages_max: int = WAITING_MESSAGES_MAX,
        waiting_bytes_max: int = WAITING_BYTES_MAX,
    ) -> None:
        self._client = client
        self._topic = (namespace, name)
        self._producer_id = producer_id
        self._epoch = epoch
        self._messages_max = waiting_messages_max
        self._bytes_max = waiting_bytes_max
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._next = 0
        self._something = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.published = 0
        self.dropped = 0

    def publish(self, payload: bytes) -> bool:
        """False when it was dropped because too much is waiting."""
        if len(self._waiting) >= self._messages_max or self._bytes + len(payload) > self._bytes_max:
            self.dropped += 1
            return False
        self._waiting.append(payload)
        self._bytes += len(payload)
        self._something.set()
        return True

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Tries once to send what waits; the rest is dropped and counted."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            while self._waiting:
                await self._send()
        except Temporary as refused:
            _log.warning("messages_dropped", count=len(self._waiting), reason=str(refused))
            self._drop(len(self._waiting))

    async def _run(self) -> None:
        while True:
            await self._something.wait()
            try:
                await self._send()
            except Temporary as refused:
                await asyncio.sleep(refused.retry_after_seconds or RETRY_SECONDS)
            if not self._waiting:
                self._something.clear()

    async def _send(self) -> None:
        """The oldest messages as one request.  They stay until it is answered, so a repeat has the same numbers."""
        batch = self._waiting[:BATCH_MESSAGES_MAX]
        producer = Producer(id=self._producer_id, epoch=self._epoch, sequence=self._next)
        try:
            await self._client.publish(*self._topic, batch, producer=producer)
        except Permanent as refused:
            _log.warning("messages_dropped", count=len(batch), reason=str(refused))
            self._drop(len(batch))
            return
        self.published += len(batch)
        self._forget(len(batch))

    def _drop(self, count: int) -> None:
        self.dropped += count
        self._forget(count)

    def _forget(self, count: int) -> None:
        self._bytes -= sum(map(len, self._waiting[:count]))
        del self._waiting[:count]
        self._next += count
