"""Publishing without waiting, for asyncio programs; ``sync_buffered`` is for all others.

    async with AsyncBufferedPublisher(client, "default", "visits", on_drop=log) as visits:
        visits.publish(b"…")

For telling, not for promising: ``publish`` never waits; messages gather and go out together, what finds no room or is
refused is dropped and counted, and the service's answer is seen only in the counts.  Repeats after a lost answer store
nothing twice, because the publisher numbers its messages.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self, Unpack

from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.publisher import Publisher, PublisherOptions
from fairlead_wire.errors import FairleadError, LocalError, Temporary


class AsyncBufferedPublisher(Publisher):
    """For one event loop.  More arguments: ``PublisherOptions``."""

    def __init__(self, client: AsyncClient, namespace: str, name: str, **options: Unpack[PublisherOptions]) -> None:
        super().__init__(namespace, name, **options)
        self._client = client
        self._something = asyncio.Event()
        self._settled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def publish(self, payload: bytes) -> bool:
        """False when it was dropped because too much is waiting.  Raises ``LocalError`` once it is closed."""
        if self._closed:
            raise LocalError("this publisher is closed")
        self._something.set()
        return self._buffer.offer(payload)

    async def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait until all that was accepted before is published or dropped; False when the time was over first."""
        accepted = self._buffer.accepted
        try:
            async with asyncio.timeout(timeout_seconds):
                while self._buffer.settled < accepted:
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            return False
        return True

    async def close(self, timeout_seconds: float | None = None) -> None:
        """Send what waits for at most ``timeout_seconds`` (absent: ``close_seconds``); the rest is dropped, counted."""
        self._closed = True
        try:
            await self.flush(self._close_seconds if timeout_seconds is None else timeout_seconds)
        finally:
            if self._task is not None:
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)
                self._task = None
            self._report(self._buffer.give_up(), Temporary("the publisher was closed"))

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self) -> None:
        while True:
            asked = self._buffer.batch()
            if asked is None:
                self._something.clear()
                await self._something.wait()
                continue
            try:
                await self._client.do(asked)
            except Temporary as failed:
                await asyncio.sleep(self._buffer.failed(failed))
                continue
            except FairleadError as refused:
                self._report(self._buffer.refused(), refused)
            else:
                self._buffer.taken()
            self._settled.set()
