"""The outbox on disk: SQLite behind the group-commit writer.

Producers' appends and the pump's settlements share transactions; fetches and status read their own snapshot.
The file also keeps the store's clock, stamped every ``age.STAMP_SECONDS`` by ``keep_time``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import apsw

from fairlead_edge import age, outbox
from fairlead_edge.checkpoint import NOTHING_DONE
from fairlead_edge.io import outbox_jobs, outbox_queries, outbox_schema, store_clock
from fairlead_edge.io.writer import Writer
from fairlead_edge.queue_id import QueueId
from fairlead_wire.errors import Temporary


class SqliteOutbox:
    """See ``outbox.Outbox``.  ``epoch`` is minted by the caller for this opening of the store.

    Opening creates or migrates the file; raises ``apsw.Error`` or ``StoreTooNew`` when it cannot be used.
    """

    def __init__(self, path: Path, *, epoch: int, max_bytes: int) -> None:
        self.epoch = epoch
        self.max_bytes = max_bytes
        found: list[age.Stamp | None] = []

        def setup(connection: apsw.Connection) -> None:
            outbox_schema.migrate(connection)
            found.append(outbox_queries.load_stamp(connection))

        self.writer = Writer(path, setup=setup)
        self._clock = store_clock.open_clock(found[0])

    def now(self) -> float:
        """The store's clock: seconds since it was first opened."""
        return self._clock.now(store_clock.boot_seconds())

    async def keep_time(self) -> None:
        """Run for as long as the store is open: writes the clock down, at once and then every ten seconds."""
        while True:
            await self.stamp()
            await asyncio.sleep(age.STAMP_SECONDS)

    async def stamp(self) -> None:
        """Write the clock down; on a full or overrun disk it stays as it was, and ages are understated by that."""
        stamp = self._clock.stamp(store_clock.read())
        with contextlib.suppress(Temporary):
            await self.writer.submit(lambda connection: outbox_jobs.save_stamp(connection, stamp))

    async def append(
        self, entries: Sequence[outbox.Entry], *, now: float, once: outbox.Once | None = None, evict: bool = False
    ) -> bytes | None:
        return await self.writer.submit(
            partial(
                outbox_jobs.append,
                entries=entries,
                epoch=self.epoch,
                now=now,
                max_bytes=self.max_bytes,
                once=once,
                evict=evict,
            )
        )

    async def queues(self) -> list[QueueId]:
        return await self.writer.read(outbox_queries.queues)

    async def fetch(
        self, queue: QueueId, *, after: int, now: float, messages_max: int, bytes_max: int
    ) -> list[outbox.Item]:
        return await self.writer.read(
            partial(
                outbox_queries.fetch, queue=queue, after=after, now=now, messages_max=messages_max, bytes_max=bytes_max
            )
        )

    async def settle(
        self,
        queue: QueueId,
        *,
        sent: Sequence[int] = (),
        refused: Sequence[outbox.Refusal] = (),
        checkpoint: int,
        at: str,
    ) -> None:
        await self.writer.submit(
            partial(outbox_jobs.settle, queue=queue, sent=sent, refused=refused, checkpoint=checkpoint, at=at)
        )

    async def checkpoint(self, queue: QueueId) -> int:
        found = await self.writer.read(partial(outbox_queries.checkpoint, queue=queue))
        return NOTHING_DONE if found is None else found

    async def sweep(self, *, now: float, entire: bool) -> int:
        return await self.writer.submit(partial(outbox_jobs.sweep, now=now, entire=entire))

    async def give_back(self) -> int:
        return await self.writer.submit(outbox_jobs.give_back)

    async def status(self, *, now: float) -> outbox.OutboxStatus:
        return await self.writer.read(partial(outbox_queries.status, now=now, max_bytes=self.max_bytes))

    async def dead_letters(self, *, after: int = 0, limit: int = 100) -> list[outbox.DeadLetter]:
        return await self.writer.read(partial(outbox_queries.dead_letters, after=after, limit=limit))

    async def replay(
        self, numbers: Sequence[int] | None, *, now: float, limit: int = outbox.DEAD_LETTER_PAGE_MAX
    ) -> int:
        return await self.writer.submit(
            partial(
                outbox_jobs.replay, numbers=numbers, epoch=self.epoch, now=now, max_bytes=self.max_bytes, limit=limit
            )
        )

    async def close(self) -> None:
        """Write the clock down, commit what is queued, close the file."""
        if self.writer.failure is None:
            await self.stamp()
        await self.writer.close()
