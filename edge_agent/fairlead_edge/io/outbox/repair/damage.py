"""Replaces messages that the disk damaged: finds, removes and counts them, and stores a record in their place.

Damage is confined to the message: it is replaced by a gap record in its queue, for the same topic, or by a dead letter
if the topic is unknown.  ``Scrubber`` reads everything the outbox holds: soon after damage was found, and otherwise
from
time to time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import apsw

from fairlead_edge.io.file_access import FileAccess
from fairlead_edge.io.outbox.repair import audit
from fairlead_edge.io.outbox.tables import dead_letters, log, receipt_tables
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.append import append_once
from fairlead_edge.io.outbox.tables.bodies import Bodies
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.io.sqlite.writer import SqliteWriter
from fairlead_edge.outbox import gaps, outbox
from fairlead_edge.outbox.gaps import Damage, QueueGap
from fairlead_edge.outbox.outbox import DeadLetter
from fairlead_edge.outbox.queues import NOTHING_DONE, QueueId
from fairlead_edge.routes.endpoints import UPSTREAM
from fairlead_wire.errors import Temporary

_NO_LIMIT = 1 << 62
"""Gap records ignore the store's limit: they are smaller than what they replace, and must not be lost."""


def set_aside(
    connection: apsw.Connection,
    queue: QueueId,
    damaged: Sequence[Damage],
    *,
    topic: str = "",
    epoch: int,
    now: float,
    at: str,
    new_id: Callable[[], str],
) -> list[QueueGap]:
    """Remove these from the queue and count them; returns the gaps.  Those no longer there ended elsewhere.

    Records for messages whose topic is lost go to ``topic``.
    """
    number = log.number_of(connection, queue) or 0
    offsets = json.dumps([each.offset for each in damaged])
    there = {offset for (offset,) in rows(connection, sql.PRESENT_OFFSETS, (number, offsets))}
    found = gaps.group((each for each in damaged if each.offset in there), topic=topic)
    removed = log.remove(connection, number, sorted(there))
    receipt_tables.drop_names(connection, number, there)
    connection.execute(sql.COUNT_DAMAGED, (removed.messages, number))
    for gap in found:
        record(connection, queue, gap, epoch=epoch, now=now, at=at, new_id=new_id)
    return found


def drop_letters(
    connection: apsw.Connection,
    numbers: Sequence[int],
    *,
    epoch: int,
    now: float,
    at: str,
    new_id: Callable[[], str],
) -> int:
    """Replace unreadable dead letters with records that say so; returns how many."""
    dropped = 0
    for queue, offset in dead_letters.remove(connection, numbers):
        dropped += 1
        known = rows(connection, sql.QUEUE_BY_NUMBER, (queue,))
        if known:
            connection.execute(sql.COUNT_DAMAGED, (1, queue))
            gap = QueueGap(offset, offset, 1, "", "a dead letter on disk is damaged")
            record(connection, QueueId(*known[0]), gap, epoch=epoch, now=now, at=at, new_id=new_id)
    return dropped


def record(
    connection: apsw.Connection,
    queue: QueueId,
    gap: QueueGap,
    *,
    epoch: int,
    now: float,
    at: str,
    new_id: Callable[[], str],
) -> None:
    """Store a gap record as the next message of the queue, or as a dead letter if its topic is unknown."""
    id = new_id()
    content = gaps.content(queue, gap, id=id, at=at)
    if queue.endpoint == UPSTREAM and gap.topic:
        entry = outbox.Entry(id, content, (outbox.Reference(queue, None, gap.topic),))
        append_once(connection, [entry], epoch=epoch, now=now, max_bytes=_NO_LIMIT, idempotency=None)
        return
    number = log.number_of(connection, queue) or 0
    connection.execute(sql.COUNT_ACCEPTED, (number,))
    dead_letters.put(connection, (number, gap.first, epoch, None, gap.topic, at, gaps.CODE, gap.reason), content)


def recount(connection: apsw.Connection) -> None:
    """Compute all totals again from the rows that exist, because sizes and counts may be damaged as well.

    Reads the whole backlog, and deletes rows without references.
    """
    for statement in sql.RECOUNT:
        rows(connection, statement)


def find(connection: apsw.Connection, queue: QueueId, *, after: int, limit: int) -> tuple[int | None, list[Damage]]:
    """Check the next ``limit`` messages above ``after``, live or not; returns where to continue (None: at the end)."""
    read = Bodies(connection)
    seen = rows(connection, sql.ALL_MESSAGES, (log.number_of(connection, queue) or 0, after, limit))
    checked = [read.checked(queue, row) for row in seen]
    return (seen[-1][0] if len(seen) == limit else None), [each for each in checked if isinstance(each, Damage)]


# ---- scrubbing -------------------------------------------------------------------------------------------------------

SCRUB_ROWS: Final = 256
"""How many messages one step of a scrub checks."""
SCRUB_SECONDS: Final = 6 * 3600.0
"""How often to check everything while no damage is found."""
SCRUB_PAUSE_SECONDS: Final = 10.0
"""The shortest time between two checks, so that a failing disk does not keep the agent busy with scrubbing."""


class ScrubbedStore(Protocol):
    """The store that a ``Scrubber`` checks."""

    path: Path
    writer: SqliteWriter
    access: FileAccess

    def now(self) -> float:
        """The store's clock."""

    async def queues(self) -> list[QueueId]:
        """All queues."""

    async def dead_letters(self, *, after: int, limit: int) -> list[DeadLetter]:
        """The next readable dead letters; unreadable ones are replaced by a record."""

    async def set_aside(self, queue: QueueId, damaged: Sequence[Damage], now: float) -> None:
        """Remove messages that the disk damaged."""


class Scrubber:
    """Checks the store from time to time.  ``is_audited``: the whole file was audited when it was opened."""

    def __init__(self, store: ScrubbedStore, *, is_audited: bool) -> None:
        self._store = store
        self._is_audited = is_audited
        self._damaged = asyncio.Event()
        """Set when damage was found since the last scrub."""

    def damage_found(self) -> None:
        """Damage was found, and there may be more: scrub soon."""
        self._damaged.set()

    async def audit_file(self) -> None:
        """Audit the file while it is in use, on a separate thread and connection; damage ends the use of the file."""
        problem = await asyncio.to_thread(audit.audit_beside, self._store.path, self._store.access)
        if problem:
            self._store.writer.damaged(problem)

    async def scrub(self) -> int:
        """Check everything, live or not, in small steps; returns how many damaged messages were found."""
        damaged = 0
        for queue in await self._store.queues():
            after: int | None = NOTHING_DONE
            while after is not None:
                look = partial(find, queue=queue, after=after, limit=SCRUB_ROWS)
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
            await self._store.writer.submit(recount)
        return damaged

    async def run(self) -> None:
        """Runs for as long as the store is open."""
        if not self._is_audited:
            await self.audit_file()
        while True:
            try:
                async with asyncio.timeout(SCRUB_SECONDS):
                    await self._damaged.wait()
            except TimeoutError:
                await self.audit_file()
            with contextlib.suppress(Temporary):  # a full disk: next time
                await self.scrub()
            await asyncio.sleep(SCRUB_PAUSE_SECONDS)
