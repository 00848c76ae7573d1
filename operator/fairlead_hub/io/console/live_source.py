"""What open pages show: surveys of the hub and polls of messaging, regardless of the number of open pages.

    a page ─view─▶ survey in slices of 2 ms, with the hub running in between ─▶ Snapshot ─▶ frames ─▶ every listener
                └▶ poll of the topics ─▶ TopicsSeen

At most one survey per second; none if no page is open.  A survey may use ``SHARE`` of the time: after one that takes
longer than 50 ms, the next one waits accordingly.  Polls are limited in the same way (``TOPICS_SHARE``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import perf_counter, thread_time

import msgspec

from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.console import frames, sections, snapshot
from fairlead_hub.console.frames import FrameRing, LiveFrames, PageFrame
from fairlead_hub.console.lines import (
    TOPICS_MAX,
    EventLine,
    EventLog,
    ReaderLag,
    TopicLine,
    TopicSample,
    TopicsSeen,
    topic_lines,
)
from fairlead_hub.console.pages import PageContext
from fairlead_hub.console.snapshot import ConsoleSnapshot
from fairlead_hub.console.traces import KeptTraces
from fairlead_hub.io.console.span_ring import SpanRing
from fairlead_hub.view import HubView
from fairlead_hub.wall_clock import WallClock
from fairlead_messaging.api.responses import Reader
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_wire.errors import FairleadError
from fairlead_wire.event import Event, short
from fairlead_wire.io import logs

EVERY_SECONDS = 1.0
SHARE = 0.05
SLICE_SECONDS = 0.002
EVENTS_EVERY_SECONDS = 0.25
EVENTS_AT_ONCE = 50
TOPICS_EVERY_SECONDS = 2.0
TOPICS_SHARE = 0.1
POLL_SECONDS = 20.0
READERS_MAX = 20
LATEST = "latest"
_log = logs.get("hub.console")


class LiveSource:
    """See the module docstring.

    ``role`` returns what the hub does instead of serving nodes; empty if it serves them.
    """

    def __init__(
        self,
        view: HubView,
        freshness: WatchHealth,
        *,
        clock: Callable[[], float],
        role: Callable[[], str],
        topics: TopicWatch,
        run: str,
        assets: str,
        spans: SpanRing | None = None,
    ) -> None:
        self._view, self._freshness, self._clock, self._role, self._topics = view, freshness, clock, role, topics
        self._assets, self._spans = assets, spans
        self._snapshot = snapshot.empty(view, clock())
        self._lines: tuple[ConsoleSnapshot | None, msgspec.Raw] = (None, msgspec.Raw(b"[]"))
        self._next = float("-inf")
        self._survey: asyncio.Task[None] | None = None
        self._live = LiveFrames()
        self._events = EventLog()
        self._flush: asyncio.TimerHandle | None = None
        self._listeners: dict[object, Callable[[PageFrame], None]] = {}
        self._ticker: asyncio.Task[None] | None = None
        self.ring = FrameRing(run)
        self.spent = 0.0
        """CPU seconds used by surveys and frames."""
        self.surveys = 0

    # ---- pages -----------------------------------------------------------------------------------

    async def view(self) -> PageContext:
        """Everything a page is rendered from, at most about a second old."""
        await self._refresh()
        self._send_events()
        kept = None
        if self._spans is not None:
            kept = KeptTraces(self._spans.newest(), self._view.settings.traces.link or "")
        return PageContext(self._snapshot, self._topics.seen, self._role(), self.ring.last_id, self._assets, kept)

    def events(self) -> list[EventLine]:
        return self._events.newest()

    async def nodes(self) -> bytes:
        """All rows as JSON."""
        await self._refresh()
        if self._lines[0] is not self._snapshot:
            self._lines = self._snapshot, msgspec.Raw(msgspec.json.encode(list(self._snapshot.lines.values())))
        return msgspec.json.encode({"after": self.ring.last_id, "at": self._snapshot.at, "lines": self._lines[1]})

    # ---- what happens ----------------------------------------------------------------------------

    def publish(self, events: Iterable[Event]) -> None:
        """Record events of the hub's core; never blocks."""
        self._events.add(events)
        if self._listeners and self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(EVENTS_EVERY_SECONDS, self._send_events)

    def _send_events(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if new := self._events.take_new():
            items = "".join(map(sections.event_item, new[:EVENTS_AT_ONCE]))
            self._publish("events", {"html": items, "count": len(new)})

    # ---- listeners -------------------------------------------------------------------------------

    def listen(self, listener: object, hear: Callable[[PageFrame], None]) -> None:
        """``hear`` receives every frame until ``leave``; frames are only made while there are listeners."""
        self._listeners[listener] = hear
        if self._ticker is None:
            self._ticker = asyncio.get_running_loop().create_task(self._tick(), name="console")

    def leave(self, listener: object) -> None:
        self._listeners.pop(listener, None)
        if not self._listeners and self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None

    def close(self) -> None:
        """Cancel running tasks."""
        for task in (self._ticker, self._survey):
            if task is not None:
                task.cancel()
        if self._flush is not None:
            self._flush.cancel()
        self._topics.close()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(max(EVERY_SECONDS / 4, self._next - self._clock()))
            try:
                await self._refresh()
            except Exception:  # noqa: BLE001 - one survey that fails must not end the updates of all pages
                _log.exception("survey_failed")

    # ---- the survey ------------------------------------------------------------------------------

    async def _refresh(self) -> None:
        """Take a new snapshot unless it is too early; concurrent callers wait for the same one."""
        if self._survey is None or self._survey.done():
            if self._clock() < self._next:
                return
            self._survey = asyncio.get_running_loop().create_task(self._take(), name="console survey")
        await asyncio.shield(self._survey)

    async def _take(self) -> None:
        begun = self._clock()
        self._next = begun + EVERY_SECONDS
        self._topics.poll_if_due()
        spent, slice_begun, cpu_begun = 0.0, perf_counter(), thread_time()
        survey = snapshot.survey(self._view, self._freshness, begun)
        while True:
            try:
                next(survey)
            except StopIteration as end:
                self._snapshot = end.value
                break
            if perf_counter() - slice_begun >= SLICE_SECONDS:
                spent += thread_time() - cpu_begun
                await asyncio.sleep(SLICE_SECONDS)
                slice_begun, cpu_begun = perf_counter(), thread_time()
        self._frames()
        spent += thread_time() - cpu_begun
        self.spent += spent
        self.surveys += 1
        self._next = max(self._next, begun + spent / SHARE)

    def _frames(self) -> None:
        """Also while no stream is open: a page that was just rendered is about to open one."""
        taken, seen, role = self._snapshot, self._topics.seen, self._role()
        if (changes := self._live.nodes(taken)) is not None:
            self._publish(frames.NODES, changes._asdict())
        rendered = {name: render(taken, seen, role) for name, render in sections.LIVE.items()}
        for name, html in self._live.sections(rendered):
            self._publish(name, {"html": str(html), "at": taken.at})

    def _publish(self, name: str, data: object) -> None:
        frame = self.ring.publish(name, data)
        for hear in list(self._listeners.values()):
            hear(frame)


class TopicWatch:
    """Polls messaging for its topics: one poll at a time, using only a share of the time.

    ``seen`` is the result of the last poll.
    """

    def __init__(self, clock: Callable[[], float], wall_clock: WallClock, *, is_configured: bool) -> None:
        self._clock, self._wall_clock = clock, wall_clock
        self._client: AsyncClient | None = None
        self.seen = TopicsSeen(is_configured)
        self._before: dict[str, TopicSample] = {}
        self._next = float("-inf")
        self._task: asyncio.Task[None] | None = None

    def ask(self, client: AsyncClient | None) -> None:
        """Poll with this client from now on.  None: the hub is stopping, and the client is closed afterwards."""
        self._client = client
        if client is None:
            self.close()

    def poll_if_due(self) -> None:
        """Start a poll unless one is running or has just finished."""
        due = self._clock() >= self._next and (self._task is None or self._task.done())
        if due and self._client is not None:
            self._task = asyncio.get_running_loop().create_task(self._poll(self._client), name="console topics")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _poll(self, client: AsyncClient) -> None:
        begun = self._clock()
        try:
            async with asyncio.timeout(POLL_SECONDS):
                looks, more = await self._all(client)
        except (FairleadError, TimeoutError, OSError) as error:
            self.seen = self.seen._replace(error=short(str(error) or "it takes too long"))
        else:
            rates = {line.topic: line.rate for line in self.seen.lines}
            lines: list[TopicLine] = topic_lines(self._before, rates, looks)
            self._before = {look.topic: look for look in looks}
            self.seen = TopicsSeen(True, tuple(lines), "", more)
        took = self._clock() - begun
        self._next = begun + max(TOPICS_EVERY_SECONDS, took / TOPICS_SHARE)

    async def _all(self, client: AsyncClient) -> tuple[list[TopicSample], int]:
        names = [(space, name) for space in await client.namespaces() for name in await client.topics(space)]
        shown = names[:TOPICS_MAX]
        return [await self._one(client, *name) for name in shown], len(names) - len(shown)

    async def _one(self, client: AsyncClient, space: str, name: str) -> TopicSample:
        offset = await client.offsets(space, name, LATEST)
        readers = (await client.readers(space, name))[:READERS_MAX]
        now = self._clock()
        lags = tuple(self._lag(each, self._wall_clock.seconds(now)) for each in readers)
        return TopicSample(f"{space}/{name}", offset.generation, offset.passed or 0, now, lags)

    @staticmethod
    def _lag(reader: Reader, now: float) -> ReaderLag:
        return ReaderLag(
            name=short(reader.name),
            messages=reader.lag_messages,
            seconds=reader.lag_seconds,
            since=int(now - reader.lag_seconds) if reader.lag_messages else 0,
            updated=reader.updated_ms // 1000,
        )
