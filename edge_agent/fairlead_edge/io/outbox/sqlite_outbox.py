"""The outbox on disk: SQLite behind the group-commit writer.

Producers' appends and the pump's settlements share transactions; fetches and status read their own snapshot.
The file also keeps the store's clock, which ``keep_time`` stamps every ``age.STAMP_SECONDS``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import apsw
import msgspec

from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.io.outbox import store_clock
from fairlead_edge.io.outbox.repair import audit, damage, salvage
from fairlead_edge.io.outbox.repair.damage import Scrubber
from fairlead_edge.io.outbox.side_files import HandedOutFile, TotalsFile
from fairlead_edge.io.outbox.tables import dead_letters, expiry, log, receipt_tables, schema, settlement, store_state
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.append import Eviction, append_once, replay
from fairlead_edge.io.sqlite.disk_space import give_back
from fairlead_edge.io.sqlite.writer import SqliteWriter
from fairlead_edge.outbox import age, outbox
from fairlead_edge.outbox.gaps import Damage
from fairlead_edge.outbox.queues import NOTHING_DONE, Attempt, InFlight, QueueId
from fairlead_edge.outbox.receipts import receipt
from fairlead_edge.outbox.receipts.departure import Departure
from fairlead_edge.outbox.receipts.receipt import Way
from fairlead_wire.errors import Temporary
from fairlead_wire.io import logs
from fairlead_wire.log_limiter import LogLimiter

EVICTED_LOG_SECONDS: Final = 60.0

_log = logs.get("edge.outbox")


_Read = Callable[[Callable[[apsw.Connection], log.FetchedMessages]], Awaitable[log.FetchedMessages]]


class SqliteOutbox:
    """See ``outbox.Outbox``.  The caller makes a new ``epoch`` for each opening of the store.

    Opening creates the file if needed and checks it; after ``salvage.SECONDS_MAX`` the rest is checked while the store
    is in use (``scrubber``), unless ``thorough``.  A damaged file is salvaged.

    Raises ``apsw.Error``, ``StoreVersionUnknown`` or ``OSError`` if it cannot be used, and ``NotOurs`` if it has
    messages that a node other than ``node`` accepted ("": any node).
    """

    def __init__(
        self,
        path: Path,
        *,
        epoch: int,
        max_bytes: int,
        refused: outbox.RefusedInputPolicy = outbox.REFUSED_INPUT_DEFAULT,
        node: str = "",
        thorough: bool = False,
        access: FileAccess = PLAIN,
    ) -> None:
        self.path = path
        self.access = access
        self.epoch = epoch
        self.max_bytes = max_bytes
        self.refused_bytes_max = int(max_bytes * refused.share)
        """How many bytes of the store dead letters of refused input may take."""
        self._refused_seconds = refused.seconds
        self._limiter = LogLimiter(EVICTED_LOG_SECONDS)
        self._handed_out = HandedOutFile(Path(f"{path}.handed-out"), access)
        self.in_flight = InFlight(self._handed_out.note)
        self._ttl_seconds: dict[str, float | None] = {}
        """By EdgeRoutes object, the current time to live of messages that inherit from it."""
        self._evicts = False
        """Whether anything was evicted since the opening; then the writer, which evicts, also reads what is sent."""
        self._totals = TotalsFile(Path(f"{path}.totals"), access)
        kept = self._totals.read()
        self._topics = {} if kept is None else {(each.endpoint, each.priority): each.topic for each in kept.queues}
        sound = salvage.make_sound(path, kept, epoch=epoch, thorough=thorough, access=access)
        self.salvaged = sound.salvaged
        """Why the file was salvaged at this opening; "" if it was sound."""
        self.scrubber = Scrubber(self, is_audited=sound.is_audited)
        found: list[age.Stamp | None] = []

        def setup(connection: apsw.Connection) -> None:
            schema.prepare(connection)
            if node:
                store_state.take_ownership(connection, node)
            found.append(store_state.load_stamp(connection))
            self._remember_handed_out(connection)

        try:
            self.writer = SqliteWriter(
                path, setup=setup, audit=audit.audit, closing=self._close_transaction, access=access
            )
        except BaseException:
            self._totals.close()
            self._handed_out.close()
            raise
        self._clock = store_clock.open_clock(found[0])

    def _close_transaction(self, connection: apsw.Connection) -> Callable[[], None]:
        connection.execute(sql.COUNT_COMMIT)
        totals = audit.read_totals(connection)
        if not totals.are_possible:  # do not overwrite good totals with these
            raise ValueError("the totals are not possible")
        topics = self._topics
        queues = tuple(
            msgspec.structs.replace(each, topic=topics.get((each.endpoint, each.priority), ""))
            for each in totals.queues
        )
        return lambda: self._totals.write(msgspec.structs.replace(totals, queues=queues))

    def _remember_handed_out(self, connection: apsw.Connection) -> None:
        """What was sent before this opening and is still stored may have arrived: mark it as in doubt."""
        highest: dict[QueueId, int] = {}
        for queue, at in self._handed_out.read().items():
            last, left = log.handed_out(connection, queue, at)
            self.in_flight.release(queue, left, in_doubt=True)
            if last > NOTHING_DONE:
                highest[queue] = min(at, last)
        self._handed_out.begin(highest)

    def now(self) -> float:
        """The store's clock: seconds since it was first opened."""
        return self._clock.now(store_clock.boot_seconds())

    async def keep_time(self) -> None:
        """Stamp the clock at once and then every ``STAMP_SECONDS``; run for as long as the store is open."""
        while True:
            await self.stamp()
            await asyncio.sleep(age.STAMP_SECONDS)

    async def stamp(self) -> None:
        """Write the clock to disk; if the disk is full or too slow the old stamp stays, and ages are understated."""
        stamp = self._clock.stamp(store_clock.read())
        with contextlib.suppress(Temporary):
            await self.writer.submit(lambda connection: store_state.save_stamp(connection, stamp))

    async def append(
        self,
        entries: Sequence[outbox.Entry],
        *,
        now: float,
        idempotency: outbox.IdempotencyKey | None = None,
        evict: bool = False,
    ) -> bytes | None:
        for entry in entries[-1:]:
            self._topics.update({(to.queue.endpoint, to.queue.priority): to.topic for to in entry.references})
        entries = outbox.inheriting(entries, self._ttl_seconds)
        eviction = Eviction(self.in_flight, [], now) if evict else None
        self._evicts = self._evicts or evict
        answer = await self.writer.submit(
            partial(
                append_once,
                entries=entries,
                epoch=self.epoch,
                now=now,
                max_bytes=self.max_bytes,
                idempotency=idempotency,
                eviction=eviction,
            )
        )
        for queue, offsets in eviction.evicted if eviction else ():
            self.in_flight.ended(queue, offsets)
        return answer

    async def refuse(self, refused: Sequence[outbox.RefusedMessage], *, now: float, at: str) -> None:
        job = partial(settlement.refuse, refused=refused, epoch=self.epoch, now=now, at=at, max_bytes=self.max_bytes)
        evicted = await self.writer.submit(partial(job, refused_bytes_max=self.refused_bytes_max))
        if evicted and (times := self._limiter.due("refused_input_evicted", now)) is not None:
            remedy = "correct the client that sends it: fairlead edge deadletters list"
            _log.warning("refused_input_evicted", letters=evicted, times=times, remedy=remedy)

    async def queues(self) -> list[QueueId]:
        return await self.writer.read(log.queues)

    async def fetch(
        self,
        queue: QueueId,
        *,
        after: int,
        now: float,
        messages_max: int,
        bytes_max: int,
        leaving: bool = False,
        only: Collection[int] | None = None,
    ) -> list[outbox.Item]:
        if not leaving:
            return await self._fetch(queue, after, now, messages_max, bytes_max, only, self.writer.read)
        while True:
            # The reader may still see what the writer just evicted: it would be sent, and count as evicted as well.
            # A sweep needs no such care: it reads its time after this, and removes only what has expired by then.
            evicts = self._evicts
            taken: set[int] = set()
            read = partial(self._take_by_writer, queue, taken) if evicts else self.writer.read
            items = await self._fetch(queue, after, now, messages_max, bytes_max, only, read)
            offsets = [item.offset for item in items]
            self.in_flight.release(queue, taken.difference(offsets))
            if evicts == self._evicts:
                self.in_flight.take(queue, offsets)
                return items

    async def _take_by_writer(
        self, queue: QueueId, taken: set[int], query: Callable[[apsw.Connection], log.FetchedMessages]
    ) -> log.FetchedMessages:
        def job(connection: apsw.Connection) -> log.FetchedMessages:
            found = query(connection)
            offsets = [item.offset for item in found.items]
            self.in_flight.take(queue, offsets)
            taken.update(offsets)
            return found

        return await self.writer.submit(job)

    async def _fetch(
        self,
        queue: QueueId,
        after: int,
        now: float,
        messages_max: int,
        bytes_max: int,
        only: Collection[int] | None,
        read: _Read,
    ) -> list[outbox.Item]:
        items: list[outbox.Item] = []
        while True:
            asked = messages_max - len(items)
            wanted = partial(log.fetch, queue=queue, after=after, now=now, messages_max=asked, bytes_max=bytes_max)
            found = await read(partial(wanted, only=only))
            if not found.damaged:
                return items + found.items
            try:
                await self.set_aside(queue, found.damaged, now)
            except Temporary:
                # No space to record it now: send the undamaged messages anyway; the next fetch tries again.
                items += found.items
                bytes_max -= sum(len(item.content) for item in found.items)
                if bytes_max <= 0 or len(found.items) + len(found.damaged) < asked or len(items) >= messages_max:
                    return items
                after = max(*(item.offset for item in found.items), *(each.offset for each in found.damaged), after)

    async def set_aside(self, queue: QueueId, damaged: Sequence[Damage], now: float) -> None:
        """Remove messages that the disk damaged; a gap record is stored in their place."""
        found = await self.writer.submit(
            partial(
                damage.set_aside,
                queue=queue,
                damaged=damaged,
                topic=self._topics.get((queue.endpoint, queue.priority), ""),
                epoch=self.epoch,
                now=now,
                at=store_clock.timestamp(),
                new_id=salvage.new_id,
            )
        )
        self.scrubber.damage_found()
        for gap in found:
            salvage.log_gap(queue, gap)

    async def settle(
        self,
        queue: QueueId,
        *,
        sent: Sequence[int] = (),
        refused: Sequence[outbox.Refusal] = (),
        checkpoint: int,
        at: str,
        departures: Sequence[Departure] = (),
    ) -> None:
        job = partial(settlement.settle, queue=queue, sent=sent, refused=refused, checkpoint=checkpoint, at=at)
        damaged = await self.writer.submit(partial(job, departures=departures))
        self.in_flight.decided(queue, [*sent, *(refusal.offset for refusal in refused)])
        if damaged:
            await self.set_aside(queue, damaged, self.now())

    async def route_again(
        self, queue: QueueId, routed: Sequence[tuple[int, outbox.Entry | None]], *, now: float
    ) -> int:
        job = partial(settlement.route_again, queue=queue, routed=routed, epoch=self.epoch, now=now)
        return await self.writer.submit(partial(job, max_bytes=self.max_bytes))

    async def whereabouts(self, id: bytes) -> list[Way]:
        """Where the message with this id is, or was when it left; empty if it is unknown or no longer remembered."""
        return await self.writer.read(partial(receipt_tables.whereabouts, id=id, in_flight=self.in_flight))

    async def remembers_since(self) -> float | None:
        """Since when (the store's clock) departures are remembered; None if nothing has left so far."""
        return await self.writer.read(receipt_tables.oldest_departure)

    async def tables_reached(self) -> dict[str, receipt.TopicReach]:
        """How far tables have read each topic, as last stored."""
        return await self.writer.read(receipt_tables.read_topics)

    async def keep_reached(self, topics: Sequence[receipt.TopicReach]) -> None:
        """Store these, replacing earlier entries of the same topics."""
        await self.writer.submit(partial(receipt_tables.keep_topics, topics=topics))

    async def checkpoint(self, queue: QueueId) -> int:
        found = await self.writer.read(partial(log.checkpoint, queue=queue))
        return NOTHING_DONE if found is None else found

    async def note_attempts(self, queue: QueueId, attempts: Sequence[Attempt]) -> None:
        await self.writer.submit(partial(settlement.note_attempts, queue=queue, attempts=attempts))

    async def attempts(self) -> dict[QueueId, list[Attempt]]:
        return await self.writer.read(settlement.read_attempts)

    async def sweep(self, *, now: float, entire: bool) -> int:
        job = partial(expiry.sweep, now=now, entire=entire, in_flight=self.in_flight)
        swept = await self.writer.submit(partial(job, refused_seconds=self._refused_seconds))
        for queue, offsets in swept.messages:
            self.in_flight.ended(queue, offsets)
        return swept.letters + sum(len(offsets) for _, offsets in swept.messages)

    async def inherit(self, ttl_seconds: Mapping[str, float | None], *, now: float) -> None:
        self._ttl_seconds = {**ttl_seconds}
        await self.writer.submit(lambda connection: None)  # wait until earlier appends are committed
        for name, each in ttl_seconds.items():
            after = expiry.RunPlace()
            while found := await self.writer.read(
                partial(expiry.stale, name=name, ttl_seconds=each, after=after, now=now)
            ):
                await self.writer.submit(partial(expiry.follow, runs=found, now=now))
                after = expiry.RunPlace(found[-1].segment, found[-1].queue)

    async def shrink(self) -> int:
        return await self.writer.submit(give_back)

    async def status(self, *, now: float) -> outbox.OutboxStatus:
        query = partial(store_state.queue_status, now=now, max_bytes=self.max_bytes, in_flight=self.in_flight)
        return await self.writer.read(partial(query, refused_bytes_max=self.refused_bytes_max))

    async def dead_letters(self, *, after: int = 0, limit: int = 100) -> list[outbox.DeadLetter]:
        while True:
            found = await self.writer.read(partial(dead_letters.after, after=after, limit=limit))
            if not found.damaged:
                return found.letters
            job = partial(damage.drop_letters, numbers=found.damaged, epoch=self.epoch, now=self.now())
            await self.writer.submit(partial(job, at=store_clock.timestamp(), new_id=salvage.new_id))
            self.scrubber.damage_found()
            _log.error("dead_letters_damaged", numbers=found.damaged, remedy="check the disk's health")

    async def discard(self, numbers: Sequence[int]) -> int:
        discarded = await self.writer.submit(partial(dead_letters.discard, numbers=numbers))
        _log.info("dead_letters_discarded", letters=discarded)
        return discarded

    async def replay(
        self, numbers: Sequence[int] | None, *, now: float, limit: int = outbox.DEAD_LETTER_PAGE_MAX
    ) -> int:
        return await self.writer.submit(
            partial(replay, numbers=numbers, epoch=self.epoch, now=now, max_bytes=self.max_bytes, limit=limit)
        )

    async def close(self) -> None:
        """Stamp the clock, commit what is queued, and close the file."""
        if self.writer.failure is None:
            await self.stamp()
        await self.writer.close()
        self._totals.close()
        self._handed_out.close()
