"""Answers where a message is, and asks the hub how far tables have read while a question is pending.

    ask(id) ─▶ whereabouts in the store + the hub's report on its topic ─▶ receipt
                                                 ▲
    run: topics of recent questions, or of messages followed for ``latency`` ─ask▶ hub

A node that sends nothing and is asked for no receipt asks the hub nothing.
"""

from __future__ import annotations

import asyncio
import datetime
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from fairlead_edge.errors import LinkDown
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.queues import QueueId, base
from fairlead_edge.outbox.receipts import departure, latency, marks, receipt
from fairlead_edge.outbox.receipts.departure import Departure
from fairlead_edge.outbox.receipts.receipt import LeftQueue, TwoClocks, Way
from fairlead_edge.waiting_places import NoPlace, WaitingPlaces
from fairlead_wire import message
from fairlead_wire.errors import Temporary
from fairlead_wire.io import logs

WAITING_MAX: Final = 64
"""Concurrent questions; modules with tokens share them (``WaitingPlaces``)."""
BUSY_RETRY_SECONDS: Final = 1.0
WANTED_SECONDS: Final = 30.0
"""How long to keep asking the hub about a topic after the latest question about one of its messages."""
WANTED_TOPICS_MAX: Final = 256
ASK_SECONDS: Final = 1.0
"""The interval between two requests about a topic for which a question waits."""
ANSWER_SECONDS_MAX: Final = 30.0
AWAY_SECONDS: Final = 2.0
"""The interval between two attempts when the hub cannot answer."""
POLL_SECONDS: Final = 5.0
"""How often to check a message again, because expiry and dead-lettering do not wake a waiting question."""
KEEP_SECONDS: Final = 10.0
"""The interval between two writes of the hub's reports to disk."""

_log = logs.get("edge.receipts")
_tables = msgspec.json.Decoder(list[message.TopicTables])


class TablesLink(Protocol):
    """What ``EdgeReceipts`` needs of the link; ``io.link.link.Link`` is one."""

    @property
    def answers_tables(self) -> bool:
        """Whether a session is open with a hub that reports how far tables have read."""
        ...

    async def ask_tables(self, topics: list[str]) -> bytes | message.Nack:
        """JSON array of ``message.TopicTables``.  Raises ``LinkDown``."""
        ...


class EdgeReceipts:
    """One per agent.  ``clock`` is the store's clock."""

    def __init__(
        self, outbox: SqliteOutbox, link: TablesLink, *, clock: Callable[[], float], modules_have_tokens: bool
    ) -> None:
        self._outbox, self._link, self._clock = outbox, link, clock
        self._topics: dict[str, receipt.TopicReach] = {}
        self._unkept: set[str] = set()
        self._wanted: dict[str, float] = {}
        """Until when to ask about each topic."""
        self._asked: dict[str, float] = {}
        """When the hub was last asked about each topic."""
        self._awaited: dict[bytes, set[asyncio.Event]] = {}
        """Messages that questions wait for, until they are sent."""
        self._news = asyncio.Event()
        self._wake = asyncio.Event()
        self._looking = asyncio.Semaphore(1)
        self._places = WaitingPlaces(WAITING_MAX, has_names=modules_have_tokens)
        self.latency = latency.Latency()
        self.counters: Counter[str] = Counter()
        """Since the start: questions answered, unknown and refused, and questions to the hub."""

    # ---- departures (``upstream_pump.Departed``) --------------------------------------------------

    def of(self, items: Sequence[Item], answer: message.Ack | message.Nack) -> list[Departure]:
        """The departures of the messages that are stored, by this answer."""
        return departure.departures(items, answer, now=self._clock())

    def settled(self, queue: QueueId, items: Sequence[Item], departures: Sequence[Departure]) -> None:
        """The departures are on disk now."""
        for each in departures:
            first = next((item for item in items if item.offset == each.low), None)
            if first is not None and self.latency.departed(base(queue.priority), each, first.enqueued):
                self._wake.set()
        if self._awaited:
            for id in self._awaited.keys() & {marks.id_in(item.content) for item in items}:
                for waiting in self._awaited[id]:
                    waiting.set()

    # ---- questions -------------------------------------------------------------------------------

    async def ask(
        self, id: bytes, *, author: bytes | None, wait_seconds: float = 0.0, until: str = "in_table"
    ) -> dict[str, Any] | None:
        """The receipt of a message once it is ``until`` or further, or after ``wait_seconds``; None if unknown.

        Only a message of ``author`` is found, with None one of any author.  Raises ``Temporary`` if there are too many
        questions at once, overall or from this author.
        """
        try:
            with self._places.held_by(author):
                found = await self._ask(id, author, asyncio.get_running_loop().time() + wait_seconds, until)
        except NoPlace as error:
            self.counters["refused"] += 1
            raise Temporary(str(error), retry_after_seconds=BUSY_RETRY_SECONDS) from None
        self.counters["answered" if found is not None else "unknown"] += 1
        return found

    async def _ask(self, id: bytes, author: bytes | None, deadline: float, until: str) -> dict[str, Any] | None:
        loop = asyncio.get_running_loop()
        while True:
            left = asyncio.Event()
            self._awaited.setdefault(id, set()).add(left)
            try:
                ways = await self._whereabouts(id, author)
                found = self._describe(id, ways)
                if found is None or _is_enough(found["state"], until) or loop.time() >= deadline:
                    return found
                is_settled = all(isinstance(each, LeftQueue) for each in ways)
                if not is_settled:
                    await _first(left, min(deadline - loop.time(), POLL_SECONDS))
                    continue
            finally:
                self._awaited[id].discard(left)
                if not self._awaited[id]:
                    del self._awaited[id]
            # It is in its topics: only the hub's reports can change the receipt now, so do not read the disk again.
            while loop.time() < deadline:
                self._want(ways)
                await _first(self._news, min(deadline - loop.time(), POLL_SECONDS))
                found = self._describe(id, ways)
                if found is None or _is_enough(found["state"], until):
                    break
            return found

    async def _whereabouts(self, id: bytes, author: bytes | None) -> list[Way]:
        async with self._looking:  # one at a time, because the pump needs the only reader as well
            ways = await self._outbox.whereabouts(id)
        ways = ways if author is None else receipt.may_see(ways, author)
        self._want(ways)
        return ways

    def _want(self, ways: Sequence[Way]) -> None:
        for each in ways:
            if not isinstance(each, LeftQueue) or not each.departure.newest:
                continue
            topic = each.departure.topic
            if topic in self._wanted or len(self._wanted) < WANTED_TOPICS_MAX:
                self._wanted[topic] = self._clock() + WANTED_SECONDS
                self._wake.set()

    def _describe(self, id: bytes, ways: Sequence[Way]) -> dict[str, Any] | None:
        now = TwoClocks(store=self._clock(), wall=datetime.datetime.now(datetime.UTC))
        return receipt.describe(id.hex(), ways, self._topics, now, is_online=self._link.answers_tables)

    async def remembers_since(self) -> str | None:
        """Since when departures are remembered, as text; None if nothing has been sent so far."""
        oldest = await self._outbox.remembers_since()
        now = TwoClocks(store=self._clock(), wall=datetime.datetime.now(datetime.UTC))
        return None if oldest is None else now.text(oldest)

    # ---- reports of the hub -------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled.  Raises ``StoreFailed``: the program must end then."""
        self._topics = {**await self._outbox.tables_reached(), **self._topics}
        kept_at = float("-inf")
        while True:
            self._wake.clear()
            now = self._clock()
            topics, pause = self._due(now)
            if topics and self._link.answers_tables:
                pause = await self._ask_hub(topics, now)
            elif topics:
                pause = AWAY_SECONDS
            if self._unkept and now - kept_at >= KEEP_SECONDS:
                await self._keep()
                kept_at = now
            if self._unkept:
                pause = KEEP_SECONDS if pause is None else min(pause, KEEP_SECONDS)
            await _first(self._wake, pause)

    def _due(self, now: float) -> tuple[list[str], float | None]:
        """Topics to ask about now; if there are none, the seconds until one is due (None: never)."""
        self._wanted = {topic: until for topic, until in self._wanted.items() if until > now}
        pauses = {**self.latency.topics(now), **dict.fromkeys(self._wanted, ASK_SECONDS)}
        self._asked = {topic: at for topic, at in self._asked.items() if topic in pauses}
        left = {topic: self._asked.get(topic, -pause) + pause - now for topic, pause in pauses.items()}
        due = sorted((topic for topic, seconds in left.items() if seconds <= 0), key=lambda topic: left[topic])
        return due[: message.TABLE_TOPICS_MAX], max(0.01, min(left.values())) if left else None

    async def _ask_hub(self, topics: list[str], now: float) -> float | None:
        """Ask the hub about these topics; returns the seconds to wait, or None."""
        self.counters["asked"] += 1
        self._asked.update(dict.fromkeys(topics, now))
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                answer = await self._link.ask_tables(topics)
        except LinkDown:
            return AWAY_SECONDS
        except TimeoutError:
            answer = message.Nack(parent_id=0, code="timeout", reason="no answer", retry_after=AWAY_SECONDS)
        if isinstance(answer, message.Nack):
            self.counters["not_told"] += 1
            return max(AWAY_SECONDS, min(answer.retry_after or AWAY_SECONDS, latency.ASK_SECONDS_MAX))
        try:
            answered = _tables.decode(answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.counters["not_told"] += 1
            _log.warning(
                "tables_unreadable", reason=str(error), remedy="the hub says something else; look at its version"
            )
            return latency.ASK_SECONDS_MAX
        # Date it by the request, not by its answer: the table may have read further meanwhile, but not less.
        for said in answered:
            if said.topic in topics:
                self._update(said, now)
        for topic in topics:
            if topic not in {said.topic for said in answered}:  # no table reads it
                self._update(message.TopicTables(topic=topic, service="", generation=0), now)
        self._news.set()
        self._news = asyncio.Event()
        return self._due(self._clock())[1]

    def _update(self, said: message.TopicTables, now: float) -> None:
        before = self._topics.get(said.topic)
        after = receipt.updated(before, said, now)
        for table in receipt.went_back(before, after):
            self.counters["went_back"] += 1
            _log.warning("table_went_back", topic=said.topic, reader=table.reader, table=table.name)
        self._topics[said.topic] = after
        self.latency.reached(after, self._clock())
        self._unkept.add(said.topic)

    async def _keep(self) -> None:
        try:
            await self._outbox.keep_reached([self._topics[topic] for topic in self._unkept])
            self._unkept.clear()
        except Temporary as error:  # a full disk: after a restart, the hub is asked again
            _log.warning("tables_not_kept", reason=str(error))


def _is_enough(state: str, until: str) -> bool:
    return state in receipt.FINAL or state == until


async def _first(event: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
