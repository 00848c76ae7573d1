"""Stores what all connections publish: one append for everything pending, acknowledged once it is on disk.

    connections ─add▶ pending ─┐ (the next batch gathers while this one is written to disk)
                               └▶ append ─▶ committed ─▶ ``stored`` of each connection, in its order

A message that cannot be stored now is retried for a while; then its connection is closed, and the client reconnects and
sends it again.  If the store has no space for a message, only later messages of the same connection wait for it.

A permanently refused message is acknowledged with its code (MQTT 5), or stored as a dead letter and acknowledged (3.1.1
has no codes, and without a PUBACK the client would repeat it forever).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Protocol

import msgspec

from fairlead_edge.errors import StoreFailed, StoreFull
from fairlead_edge.io.outbox.publisher import Gathered
from fairlead_edge.mqtt import messages, reasons
from fairlead_edge.mqtt.packets import LEVEL_5
from fairlead_edge.mqtt.reasons import Code, MqttRefused
from fairlead_edge.mqtt.session import PublishOutcome, ReceivedPublish
from fairlead_edge.mqtt.status import Counters
from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.outbox import Entry, Reference, RefusedMessage
from fairlead_edge.outbox.publishing import Accepted, NotAccepted, RefusalReason, Submission
from fairlead_edge.outbox.queues import REFUSED_INPUT, QueueId
from fairlead_wire.errors import Temporary
from fairlead_wire.io import logs
from fairlead_wire.log_limiter import LogLimiter

UNSTORED_BYTES_MAX: Final = 4 * 1024 * 1024
"""Pending bytes of all connections; beyond it, none is read until half of them are stored."""
HELD_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of messages that wait for space; beyond it, the connection with the most is closed and must repeat them."""
STOPPED_BYTES: Final = 512 * 1024
"""Bytes of one connection's messages that wait for space; beyond it, the connection is not read.  Up to it, PINGREQs
are
still answered."""
TRIES_MAX: Final = 64
"""How often a batch is split when there is no space for all of it; the rest is tried the next time."""
MESSAGE_COST_BYTES: Final = 1024
"""The memory that a message takes in addition to its bytes."""
PATIENCE_SECONDS: Final = 30.0
"""How long storing is retried before the connections are closed."""
RETRY_SECONDS: Final = 1.0
LOG_SECONDS: Final = 60.0

_log = logs.get("edge.mqtt")


class MessageSource(Protocol):
    """What the intake needs of a connection."""

    @property
    def level(self) -> int: ...
    @property
    def module(self) -> str: ...

    def stored(self, outcomes: Sequence[PublishOutcome]) -> None:
        """These are stored or refused, in order of arrival."""
        ...

    def refuse(self, refused: MqttRefused) -> None:
        """Close the connection; the client repeats what was not acknowledged."""
        ...

    def hold(self, is_held: bool) -> None:
        """Stop reading the connection, or resume; called while many of its messages wait for space."""
        ...


class IntakeStore(Protocol):
    """What the intake needs of the ``MessagePublisher``."""

    async def store_gathered(self, gathered: Sequence[Gathered]) -> list[Accepted | NotAccepted]: ...
    def refuse_for_good(self, refused: Sequence[RefusedMessage]) -> Awaitable[None]: ...


class _Item(msgspec.Struct, gc=False):
    """``is_kept``: it was refused, and stored as a dead letter.  ``is_held``: it waits for space."""

    source: MessageSource
    received: ReceivedPublish
    result: Accepted | NotAccepted | None = None
    is_kept: bool = False
    is_held: bool = False

    @property
    def needs_letter(self) -> bool:
        """Whether it was refused for a 3.1.1 client, whose PUBACK cannot carry a code."""
        is_refused = isinstance(self.result, NotAccepted)
        return is_refused and not self.is_kept and self.source.level != LEVEL_5 and self.received.message.qos > 0

    @property
    def is_decided(self) -> bool:
        return self.result is not None and not self.needs_letter


class _HeldMessages(msgspec.Struct):
    """The waiting messages of one connection; the first one waits for space."""

    source: MessageSource
    items: list[_Item]
    until: float
    refused: MqttRefused
    is_stopped: bool = False
    """Whether the connection is not read."""

    @property
    def size(self) -> int:
        return sum(_cost(item.received) for item in self.items)


class _StoreUnavailable(Exception):
    """The store accepted nothing for too long."""


class Intake:
    """One per agent.  ``overloaded(True)`` asks to stop reading, ``overloaded(False)`` allows it again."""

    def __init__(
        self,
        store: IntakeStore,
        *,
        node: str,
        counters: Counters,
        overloaded: Callable[[bool], None],
        new_id: Callable[[], str],
        timestamp: Callable[[], str],
        clock: Callable[[], float],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._store = store
        self._refused_queue = QueueId(f"{node}/{REFUSED_INPUT}")
        self._counters = counters
        self._overloaded = overloaded
        self._new_id = new_id
        self._timestamp = timestamp
        self._clock = clock
        self._patience_seconds = patience_seconds
        self._pending: list[_Item] = []
        self._held: dict[int, _HeldMessages] = {}
        """By the ``id()`` of their source."""
        self._came = asyncio.Event()
        self._retry_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._limiter = LogLimiter(LOG_SECONDS)
        self.waiting = 0
        self.waiting_bytes = 0
        self.held_bytes = 0
        self.is_overloaded = False

    def add(self, source: MessageSource, received: Sequence[ReceivedPublish]) -> None:
        """Store these; ``source.stored`` is called once they are."""
        self._pending.extend([_Item(source, each) for each in received])
        self.waiting += len(received)
        self.waiting_bytes += sum(map(_cost, received))
        if not self.is_overloaded and self.waiting_bytes > UNSTORED_BYTES_MAX:
            self.is_overloaded = True
            self._overloaded(True)
        self._came.set()
        if self._task is None:
            # The task starts after all readable connections were read, so their messages are stored together.
            self._task = asyncio.create_task(self._run(), name="mqtt intake")

    async def drain(self, seconds: float) -> None:
        """Wait until everything is stored, but no longer than this."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._pending or self._held:
                if not self._pending:
                    await self._pending_or_due()
                before: dict[int, _HeldMessages] = {}
                if not self._pending or self._clock() >= self._retry_at:
                    before, self._held = self._held, {}
                batch = [item for held in before.values() for item in held.items]
                for item in self._pending:
                    if (held := self._held.get(id(item.source))) is not None:
                        self._hold(held, [item])
                    else:
                        batch.append(item)
                self._pending = []
                waits: set[int] = set()
                try:
                    waits = await self._take(batch, before)
                finally:
                    self._gone([item for item in batch if id(item) not in waits])
                self._bound_held()
        except StoreFailed as error:
            _log.error("mqtt_stopped", reason=str(error))  # the agent stops because of it
        finally:
            self._task = None

    async def _pending_or_due(self) -> None:
        self._came.clear()
        nearest = min((held.until for held in self._held.values()), default=0.0) - self._clock()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(RETRY_SECONDS, max(0.0, nearest))):
                await self._came.wait()

    def _gone(self, items: Sequence[_Item]) -> None:
        self.waiting -= len(items)
        self.held_bytes -= sum(_cost(item.received) for item in items if item.is_held)
        self.waiting_bytes -= sum(_cost(item.received) for item in items if not item.is_held)
        self._release_backpressure()

    def _release_backpressure(self) -> None:
        if self.is_overloaded and self.waiting_bytes <= UNSTORED_BYTES_MAX // 2:
            self.is_overloaded = False
            self._overloaded(False)

    async def _take(self, batch: list[_Item], before: dict[int, _HeldMessages]) -> set[int]:
        """Store and answer them; returns the ids of the items that wait for space.  ``before``: those already
        waiting."""
        full: dict[int, MqttRefused] = {}
        try:
            unstored = [each for each in batch if each.result is None and isinstance(each.received.content, Submission)]
            await self._fit(unstored, self._store_items, full)
            for item in batch:
                if isinstance(item.received.content, RefusalReason):
                    item.result = NotAccepted(item.received.content)
            await self._fit([item for item in batch if item.needs_letter], self._keep_letters, full)
        except _StoreUnavailable:
            return set()
        decided: list[_Item] = []
        waiting: dict[int, list[_Item]] = {}
        for item in batch:
            key = id(item.source)
            if key in waiting or not item.is_decided:
                waiting.setdefault(key, []).append(item)
            else:
                decided.append(item)
        self._answer(decided)
        waits: set[int] = set()
        for key in reversed(full):  # the last were not tried: they are first the next time
            items = waiting.pop(key)
            held = before.pop(key, None) or _HeldMessages(
                items[0].source, [], self._clock() + self._patience_seconds, full[key]
            )
            held.items = []
            if self._clock() >= held.until:
                self._give_up(items, full[key])
                continue
            self._hold(held, items)
            waits |= {id(item) for item in items}
        for held in before.values():
            if held.is_stopped:
                held.source.hold(False)
        return waits

    def _hold(self, held: _HeldMessages, items: Sequence[_Item]) -> None:
        key = id(held.source)
        if key not in self._held:
            if not self._held:
                self._retry_at = self._clock() + RETRY_SECONDS
            self._held[key] = held
        held.items += items
        if not held.is_stopped and held.size > STOPPED_BYTES:
            held.is_stopped = True
            held.source.hold(True)
        for item in items:
            if not item.is_held:
                item.is_held = True
                self.waiting_bytes -= _cost(item.received)
                self.held_bytes += _cost(item.received)
        self._release_backpressure()

    def _bound_held(self) -> None:
        while self.held_bytes > HELD_BYTES_MAX and self._held:
            key = max(self._held, key=lambda key: self._held[key].size)
            held = self._held.pop(key)
            self._give_up(held.items, held.refused)
            self._gone(held.items)

    async def _fit(
        self, items: Sequence[_Item], step: Callable[[Sequence[_Item]], Awaitable[None]], full: dict[int, MqttRefused]
    ) -> None:
        """Perform the step for as many items as there is space for: all at once, else in halves, down to the one that
        does not fit.  Its source is added to ``full`` and skipped from then on, to keep the order of its messages."""
        tries = 0

        async def fit(some: Sequence[_Item]) -> None:
            nonlocal tries
            some = [item for item in some if id(item.source) not in full]
            if not some:
                return
            tries += 1
            try:
                await self._patiently(lambda: step(some), some)
            except StoreFull as error:
                if len(some) == 1 or tries >= TRIES_MAX:
                    full.update({id(item.source): MqttRefused(Code.QUOTA_EXCEEDED, str(error)) for item in some})
                    return
                half = len(some) // 2
                await fit(some[:half])
                await fit(some[half:])

        await fit(items)

    async def _store_items(self, items: Sequence[_Item]) -> None:
        results = await self._store.store_gathered(_gathered(items))
        for item, result in zip(items, results, strict=True):
            item.result = result

    async def _keep_letters(self, items: Sequence[_Item]) -> None:
        await self._store.refuse_for_good([self._letter(item) for item in items])
        for item in items:
            item.is_kept = True

    async def _patiently(self, step: Callable[[], Awaitable[None]], items: Sequence[_Item]) -> None:
        """Perform the step, retrying while the store is unavailable.  Raises ``StoreFull``, and ``_StoreUnavailable``
        after closing the connections."""
        until = self._clock() + self._patience_seconds
        while True:
            try:
                return await step()
            except Temporary as error:
                is_full = isinstance(error, StoreFull)
                code = Code.QUOTA_EXCEEDED if is_full else Code.SERVER_BUSY
                if self._limiter.due(code, self._clock()) is not None:
                    _log.warning("mqtt_waits", reason=str(error), messages=len(items))
                if is_full:
                    raise
                if self._clock() >= until:
                    self._give_up(items, MqttRefused(code, str(error)))
                    raise _StoreUnavailable from None
            await asyncio.sleep(min(RETRY_SECONDS, max(0.0, until - self._clock())))

    def _give_up(self, items: Sequence[_Item], refused: MqttRefused) -> None:
        for item in items:
            if not item.received.message.qos:
                self._counters.refused[refused.code.label] += 1
        for source in {id(item.source): item.source for item in items}.values():
            source.refuse(refused)

    def _answer(self, items: Sequence[_Item]) -> None:
        outcomes: dict[int, list[PublishOutcome]] = {}
        sources: dict[int, MessageSource] = {}
        published = self._counters.published
        for item in items:
            message, result = item.received.message, item.result
            if isinstance(result, NotAccepted):
                code = reasons.of_message(result.error.code)
                self._counters.refused[code.label] += 1
                outcome = PublishOutcome(message, code, result.error.message)
            else:
                assert result is not None
                published[message.qos] += 1
                outcome = PublishOutcome(message, Code.SUCCESS if result.deliveries else Code.NO_MATCHING_SUBSCRIBERS)
            sources[id(item.source)] = item.source
            outcomes.setdefault(id(item.source), []).append(outcome)
        for key, found in outcomes.items():
            sources[key].stored(found)

    def _letter(self, item: _Item) -> RefusedMessage:
        id, result = self._new_id(), item.result
        assert isinstance(result, NotAccepted)
        content = envelope.stored(messages.refused_message(item.received.message, id, self._timestamp()))
        entry = Entry(id, content, (Reference(self._refused_queue),))
        return RefusedMessage(entry, result.error.code, result.error.message)


def _gathered(items: Sequence[_Item]) -> list[Gathered]:
    """The items in order, consecutive ones of one module together."""
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


def _cost(received: ReceivedPublish) -> int:
    return MESSAGE_COST_BYTES + len(received.message.payload) + len(received.message.topic)


class WaitingConnection(Protocol):
    """What the queue needs of a connection."""

    def update_reading(self) -> None:
        """Check whether the connection should be read."""
        ...


class ResumeQueue:
    """Connections that are not read resume one after the other, the one held longest first.

    If all resumed at once, one that floods would always use up the space before the others are read, and they would
    starve.  ``soon`` calls its argument after the sockets were polled once.
    """

    def __init__(self, *, soon: Callable[[Callable[[], None]], object], is_overloaded: Callable[[], bool]) -> None:
        self._soon = soon
        self._is_overloaded = is_overloaded
        self._held: dict[WaitingConnection, None] = {}
        self._is_going = False

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, connections: Iterable[WaitingConnection]) -> None:
        """Hold these; connections already waiting keep their places."""
        for each in connections:
            self._held.setdefault(each)
            each.update_reading()

    def remove(self, connection: WaitingConnection) -> None:
        """The connection ended."""
        self._held.pop(connection, None)

    def resume(self) -> None:
        """There is space again."""
        if not self._is_going:
            self._is_going = True
            self._next()

    def _next(self) -> None:
        if self._is_overloaded() or not self._held:
            self._is_going = False
            return
        connection = next(iter(self._held))
        del self._held[connection]
        connection.update_reading()
        self._soon(self._next)
