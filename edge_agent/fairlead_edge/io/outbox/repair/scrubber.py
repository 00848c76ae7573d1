"""Looks at everything the outbox holds: soon after damage was met, and otherwise now and then."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from fairlead_edge.io.file_access import FileAccess
from fairlead_edge.io.outbox.repair import audit, damage
from fairlead_edge.io.sqlite.writer import Writer
from fairlead_edge.outbox.checkpoint import NOTHING_DONE
from fairlead_edge.outbox.gaps import Damage
from fairlead_edge.outbox.outbox import DeadLetter
from fairlead_edge.outbox.queue_id import QueueId
from fairlead_wire.errors import Temporary

SCRUB_ROWS: Final = 256
"""Messages one step of a scrub looks at."""
SCRUB_SECONDS: Final = 6 * 3600.0
"""How often to check everything that is held, as long as no damage is found."""
SCRUB_PAUSE_SECONDS: Final = 10.0
"""The shortest time between two checks: a disk that goes on changing must not keep the agent busy with nothing else."""


class ScrubbedStore(Protocol):
    """What is looked at."""

    path: Path
    writer: Writer
    access: FileAccess

    def now(self) -> float:
        """The store's clock."""

    async def queues(self) -> list[QueueId]:
        """All of them."""

    async def dead_letters(self, *, after: int, limit: int) -> list[DeadLetter]:
        """The next ones that can be read; those that cannot are replaced by a record."""

    async def set_aside(self, queue: QueueId, damaged: Sequence[Damage], now: float) -> None:
        """Take out messages that the disk changed."""


class Scrubber:
    """``is_looked_through``: all of the file was audited when it was opened."""

    def __init__(self, store: ScrubbedStore, *, is_looked_through: bool) -> None:
        self._store = store
        self._is_looked_through = is_looked_through
        self._damaged = asyncio.Event()
        """Something was found damaged since the last scrub."""

    def damage_met(self) -> None:
        """Something was damaged: there may be more."""
        self._damaged.set()

    async def look_through(self) -> None:
        """Audit the file beside its use, on a thread and a connection of its own; damage ends its use."""
        problem = await asyncio.to_thread(audit.audit_beside, self._store.path, self._store.access)
        if problem:
            self._store.writer.damaged(problem)

    async def scrub(self) -> int:
        """Look at everything held, live or not, in small steps; returns how many were found damaged."""
        damaged = 0
        for queue in await self._store.queues():
            after: int | None = NOTHING_DONE
            while after is not None:
                look = partial(damage.find, queue=queue, after=after, limit=SCRUB_ROWS)
                after, found = await self._store.writer.read(look)
                if found:
                    await self._store.set_aside(queue, found, self._store.now())
                    damaged += len(found)
                await asyncio.sleep(0)
        number = 0
        while letters := await self._store.dead_letters(after=number, limit=SCRUB_ROWS):
            number = letters[-1].number
        if self._damaged.is_set():
            self._damaged.clear()
            await self._store.writer.submit(damage.recount)
        return damaged

    async def run(self) -> None:
        """For as long as the store is open."""
        if not self._is_looked_through:
            await self.look_through()
        while True:
            try:
                async with asyncio.timeout(SCRUB_SECONDS):
                    await self._damaged.wait()
            except TimeoutError:
                await self.look_through()
            with contextlib.suppress(Temporary):  # a full disk: next time
                await self.scrub()
            await asyncio.sleep(SCRUB_PAUSE_SECONDS)
