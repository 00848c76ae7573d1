"""Both messaging clients behind one interface, so that one suite tests both.

The synchronous one is called in threads, which is also how it is meant to be shared.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fairlead_messaging.api.responses import Message
from fairlead_messaging.client.io import sync_client
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.buffered_publisher import AsyncBufferedPublisher, BufferedPublisher
from fairlead_messaging.client.io.transaction_context import AsyncTransactionContext, TransactionContext

KINDS = ("asyncio", "sync")


class Table:
    """A participant that records its calls, and fails where the test says so."""

    def __init__(self, *, failing: str = "", changes: Sequence[str] = ()) -> None:
        self.asked: list[str] = []
        self._failing = failing
        self._changes = changes

    def changes(self) -> Sequence[str]:
        return self._changes

    def note(self, what: str) -> None:
        self.asked.append(what)
        if what in self._failing:
            raise RuntimeError(what)


class _Asyncio:
    def __init__(self, table: Table) -> None:
        self._table = table
        self.changes = table.changes

    async def persist(self) -> None:
        self._table.note("persist")

    async def rollback(self) -> None:
        self._table.note("rollback")


class _Sync:
    def __init__(self, table: Table) -> None:
        self._table = table
        self.changes = table.changes

    def persist(self) -> None:
        self._table.note("persist")

    def rollback(self) -> None:
        self._table.note("rollback")


class _InThreads:
    """Every method of `real` as a coroutine."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        if not callable(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(found, *args, **kwargs)

        return call


class Client:
    """`await client.ask.publish(…)`, and the other features of a client."""

    def __init__(self, kind: str, url: str, **how: Any) -> None:
        self.kind = kind
        self.real: Any = AsyncClient(url, **how) if kind == "asyncio" else sync_client.Client(url, **how)
        self.ask: Any = self.real if kind == "asyncio" else _InThreads(self.real)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.ask.close()

    async def messages(self, *topic: str, **how: Any) -> AsyncIterator[Message]:
        """Each message as it arrives."""
        if self.kind == "asyncio":
            async for message in self.real.messages(*topic, **how):
                yield message
            return
        iterator = iter(self.real.messages(*topic, **how))
        while (message := await asyncio.to_thread(next, iterator, None)) is not None:
            yield message

    async def payloads(self, *topic: str, **how: Any) -> list[bytes]:
        return [message.payload async for message in self.messages(*topic, **how)]

    @asynccontextmanager
    async def work(self, *tables: Table, **how: Any) -> AsyncIterator[Any]:
        """A transaction context; the yielded object has `publish` as a coroutine."""
        if self.kind == "asyncio":
            participants = [_Asyncio(table) for table in tables]
            async with AsyncTransactionContext(self.real, participants=participants, **how) as work:
                yield work
            return
        real = TransactionContext(self.real, participants=[_Sync(table) for table in tables], **how)
        await asyncio.to_thread(real.__enter__)
        try:
            yield _InThreads(real)
        except BaseException as error:
            await asyncio.to_thread(real.__exit__, type(error), error, None)
            raise
        else:
            await asyncio.to_thread(real.__exit__, None, None, None)

    @asynccontextmanager
    async def publisher(self, *topic: str, **how: Any) -> AsyncIterator[Any]:
        """A buffered publisher; `flush` is a coroutine, `publish` is not: it must never wait."""
        if self.kind == "asyncio":
            async with AsyncBufferedPublisher(self.real, *topic, **how) as publisher:
                yield publisher
            return
        real = BufferedPublisher(self.real, *topic, **how)
        try:
            yield _Publishing(real)
        finally:
            await asyncio.to_thread(real.close)


class _Publishing(_InThreads):
    def publish(self, payload: bytes) -> bool:
        return bool(self.real.publish(payload))
