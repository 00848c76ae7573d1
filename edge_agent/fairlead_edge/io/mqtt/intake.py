"""Stores what all connections publish: one append for everything pending, acknowledged when it is on disk.

    connections ─add▶ pending ─┐ (the next batch gathers while this one is on its way to the disk)
                               └▶ append ─▶ committed ─▶ ``stored`` of each connection, in its order

What cannot be stored now is tried again for a while, without an acknowledgement; then its connections end, and the
clients come back and repeat it.  What is refused for good is acknowledged with its code (MQTT 5), or kept as a dead
letter and acknowledged (3.1.1, which has no code: without a PUBACK its client would repeat it for ever).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import msgspec

from fairlead_edge.errors import StoreFailed, StoreFull
from fairlead_edge.io.outbox.publisher import Gathered
from fairlead_edge.mqtt import reasons, submission
from fairlead_edge.mqtt.packets import LEVEL_5
from fairlead_edge.mqtt.reasons import Code, Refused
from fairlead_edge.mqtt.session import Outcome, Received
from fairlead_edge.mqtt.status import Counters
from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.outbox import Entry, Reference, RefusedMessage
from fairlead_edge.outbox.publishing import Accepted, NotAccepted, Reason
from fairlead_edge.outbox.queue_id import QueueId
from fairlead_wire.errors import Temporary
from fairlead_wire.io import logs
from fairlead_wire.log_limiter import LogLimiter

UNSTORED_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of all connections together; over it none is read until half of it is stored."""
MESSAGE_COST_BYTES: Final = 1024
"""What a message costs in memory beside its bytes."""
PATIENCE_SECONDS: Final = 30.0
"""How long what cannot be stored now is tried again before its connections end."""
RETRY_SECONDS: Final = 1.0
REFUSED_INPUT: Final = "$mqtt/refused"
"""The input to which a message comes that was refused for good, when it is replayed."""
LOG_SECONDS: Final = 60.0

_log = logs.get("edge.mqtt")


class Source(Protocol):
    """A connection, as this sees it."""

    @property
    def level(self) -> int: ...
    @property
    def module(self) -> str: ...

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """These are decided, in the order they came."""
        ...

    def refuse(self, refused: Refused) -> None:
        """End it: what it sent and got no acknowledgement for is to be repeated."""
        ...


class Store(Protocol):
    """What is needed of the ``Publisher``."""

    async def store_gathered(self, gathered: Sequence[Gathered]) -> list[Accepted | NotAccepted]: ...
    def refuse_for_good(self, refused: Sequence[RefusedMessage]) -> Awaitable[None]: ...


class _Item(msgspec.Struct, frozen=True, gc=False):
    source: Source
    received: Received


_Result = Accepted | NotAccepted


class Intake:
    """One per agent.  ``pressed`` is called with True when nothing more should be read, with False when it may be."""

    def __init__(
        self,
        store: Store,
        *,
        node: str,
        counters: Counters,
        pressed: Callable[[bool], None],
        new_id: Callable[[], str],
        timestamp: Callable[[], str],
        clock: Callable[[], float],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._store = store
        self._refused_queue = QueueId(f"{node}/{REFUSED_INPUT}")
        self._counters = counters
        self._pressed = pressed
        self._new_id = new_id
        self._timestamp = timestamp
        self._clock = clock
        self._patience_seconds = patience_seconds
        self._pending: list[_Item] = []
        self._task: asyncio.Task[None] | None = None
        self._limiter = LogLimiter(LOG_SECONDS)
        self.waiting = 0
        self.waiting_bytes = 0
        self.is_pressed = False

    def add(self, source: Source, received: Sequence[Received]) -> None:
        """Store these; ``source.stored`` is called when they are."""
        self._pending.extend([_Item(source, each) for each in received])
        self.waiting += len(received)
        self.waiting_bytes += sum(map(_cost, received))
        if not self.is_pressed and self.waiting_bytes > UNSTORED_BYTES_MAX:
            self.is_pressed = True
            self._pressed(True)
        if self._task is None:
            # The task begins when all connections that can be read now were: their messages go together.
            self._task = asyncio.create_task(self._run(), name="mqtt intake")

    async def drain(self, seconds: float) -> None:
        """Until everything is stored, but no longer than this."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._pending:
                batch, self._pending = self._pending, []
                try:
                    await self._take(batch)
                finally:
                    self._gone(batch)
        except StoreFailed as error:
            _log.error("mqtt_stopped", reason=str(error))  # the agent ends by it
        finally:
            self._task = None

    def _gone(self, batch: list[_Item]) -> None:
        self.waiting -= len(batch)
        self.waiting_bytes -= sum(_cost(item.received) for item in batch)
        if self.is_pressed and self.waiting_bytes <= UNSTORED_BYTES_MAX // 2:
            self.is_pressed = False
            self._pressed(False)

    async def _take(self, batch: list[_Item]) -> None:
        submitted = [item for item in batch if not isinstance(item.received.content, Reason)]
        stored: list[_Result] = []
        if submitted:
            gathered = _gathered(submitted)
            found = await self._patiently(lambda: self._store.store_gathered(gathered), batch)
            if found is None:
                return
            stored = found
        results = iter(stored)
        decided = [
            NotAccepted(item.received.content) if isinstance(item.received.content, Reason) else next(results)
            for item in batch
        ]
        lost: set[int] = set()
        letters = [
            (item, result)
            for item, result in zip(batch, decided, strict=True)
            if isinstance(result, NotAccepted) and item.source.level != LEVEL_5 and item.received.message.qos
        ]
        if letters:
            refused = [self._letter(item, result) for item, result in letters]
            if await self._patiently(lambda: self._refuse_for_good(refused), [item for item, _ in letters]) is None:
                lost = {id(item.source) for item, _ in letters}
        self._answer(batch, decided, lost)

    async def _refuse_for_good(self, refused: Sequence[RefusedMessage]) -> list[_Result]:
        await self._store.refuse_for_good(refused)
        return []

    async def _patiently(
        self, step: Callable[[], Awaitable[list[_Result]]], batch: list[_Item]
    ) -> list[_Result] | None:
        """What the step returns, tried again while it cannot be done now; None: given up, and its connections end."""
        until = self._clock() + self._patience_seconds
        while True:
            try:
                return await step()
            except Temporary as error:
                code = Code.QUOTA_EXCEEDED if isinstance(error, StoreFull) else Code.SERVER_BUSY
                if self._limiter.due(code, self._clock()) is not None:
                    _log.warning("mqtt_waits", reason=str(error), messages=len(batch))
                if self._clock() >= until:
                    self._give_up(batch, Refused(code, str(error)))
                    return None
            await asyncio.sleep(min(RETRY_SECONDS, max(0.0, until - self._clock())))

    def _give_up(self, batch: list[_Item], refused: Refused) -> None:
        for item in batch:
            if not item.received.message.qos:
                self._counters.refused[refused.code.label] += 1
        for source in {id(item.source): item.source for item in batch}.values():
            source.refuse(refused)

    def _answer(self, batch: list[_Item], decided: list[_Result], lost: set[int]) -> None:
        outcomes: dict[int, list[Outcome]] = {}
        sources: dict[int, Source] = {}
        published = self._counters.published
        for item, result in zip(batch, decided, strict=True):
            message = item.received.message
            key = id(item.source)
            if isinstance(result, NotAccepted):
                code = reasons.of_message(result.error.code)
                self._counters.refused[code.label] += 1
                outcome = Outcome(message, code, result.error.message)
            else:
                published[message.qos] += 1
                outcome = Outcome(message, Code.SUCCESS if result.deliveries else Code.NO_MATCHING_SUBSCRIBERS)
            if key not in lost:
                sources[key] = item.source
                outcomes.setdefault(key, []).append(outcome)
        for key, found in outcomes.items():
            sources[key].stored(found)

    def _letter(self, item: _Item, result: NotAccepted) -> RefusedMessage:
        id = self._new_id()
        content = envelope.stored(submission.refused_message(item.received.message, id, self._timestamp()))
        entry = Entry(id, content, (Reference(self._refused_queue),))
        return RefusedMessage(entry, result.error.code, result.error.message)


def _gathered(items: Sequence[_Item]) -> list[Gathered]:
    """In order; what one module sent in a row goes together."""
    found: list[Gathered] = []
    module: str | None = None
    for item in items:
        if item.source.module != module:
            module = item.source.module
            submissions: list[object] = []
            ttls: list[float | None] = []
            found.append(Gathered(module, submissions, ttls))  # type: ignore[arg-type]
        submissions.append(item.received.content)
        ttls.append(item.received.ttl_seconds)
    return found


def _cost(received: Received) -> int:
    return MESSAGE_COST_BYTES + len(received.message.payload) + len(received.message.topic)
