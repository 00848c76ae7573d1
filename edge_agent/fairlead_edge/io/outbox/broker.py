"""Leases messages of brokered endpoints to their modules (``brokered.endpoint`` decides).

Leases and delivery counts are on disk before a module gets a message, so a restart of the agent forgets none.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Final

from fairlead_edge.outbox.brokered.endpoint import LEASE_SECONDS, BrokeredFailed, Endpoint, Leased
from fairlead_edge.outbox.brokered.priority import ABANDONED, BrokeredSettle
from fairlead_edge.outbox.delivery import BROKERED_POLICY
from fairlead_edge.outbox.outbox import Outbox
from fairlead_edge.outbox.queues import Attempt, QueueId
from fairlead_edge.routes.endpoints import UPSTREAM
from fairlead_wire.delivery_policy import DeliveryPolicy, Uniform
from fairlead_wire.errors import Temporary
from fairlead_wire.io import logs

TAKE_MESSAGES_MAX: Final = 100
WAIT_SECONDS_MAX: Final = 60.0
RETRY_SECONDS: Final = 1.0
"""The delay after the store could not write something: the disk is full or slow."""

_log = logs.get("edge.broker")


class _ServedEndpoint:
    """An endpoint, and the lock for taking messages from it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.taking = asyncio.Lock()
        """Serializes deciding and reading, so that two callers never get the same message."""


class ModuleBroker:
    """Serves every endpoint except upstream.  ``clock`` is the store's clock, ``timestamp`` gives RFC 3339 text."""

    def __init__(
        self,
        outbox: Outbox,
        *,
        clock: Callable[[], float],
        timestamp: Callable[[], str],
        uniform: Uniform,
        policy: DeliveryPolicy = BROKERED_POLICY,
    ) -> None:
        self._outbox = outbox
        self._clock = clock
        self._timestamp = timestamp
        self._policy = policy
        self._uniform = uniform
        self._served: dict[str, _ServedEndpoint] = {}
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._loading = asyncio.Lock()
        self._is_loaded = False
        self._changed = asyncio.Event()
        """Set when a lease may end earlier than ``run`` expects."""
        self._in_work: set[asyncio.Task[list[Leased]]] = set()
        self._followers: set[Callable[[str], None]] = set()

    async def load(self) -> None:
        """Load what is on disk; called once."""
        async with self._loading:
            if self._is_loaded:
                return
            attempts = await self._outbox.attempts()
            for queue in await self._outbox.queues():
                if queue.endpoint == UPSTREAM:
                    continue
                checkpoint = await self._outbox.checkpoint(queue)
                leased = self._serve(queue.endpoint).endpoint.found(queue, checkpoint, attempts.get(queue, ()))
                self._outbox.in_flight.take(queue, leased)
            self._is_loaded = True
            self._changed.set()

    def appended(self, queues: Iterable[QueueId]) -> None:
        """Something was stored under these queues."""
        if not self._is_loaded:
            return  # ``load`` will find it
        for queue in queues:
            if queue.endpoint != UPSTREAM:
                self._serve(queue.endpoint).endpoint.appended(queue)
                self._wake(queue.endpoint)

    async def take(
        self, endpoint: str, *, messages_max: int, wait_seconds: float, lease_seconds: float = LEASE_SECONDS
    ) -> list[Leased]:
        """Lease up to ``messages_max`` messages, most urgent first; waits for the first one.  Empty if none came.

        If the caller is cancelled, nothing is leased.
        """
        await self.load()
        deadline = self._clock() + wait_seconds
        changed = asyncio.Event()
        with self._waits(endpoint, changed):
            while True:
                changed.clear()
                checked_at = self._clock()
                taken = await self._take_or_nothing(endpoint, messages_max, lease_seconds)
                if taken or self._clock() >= deadline:
                    return taken
                await self._wait(endpoint, changed, deadline, checked_at)

    @contextlib.contextmanager
    def followed(self, found: Callable[[str], None]) -> Iterator[None]:
        """Inside, ``found`` is called with every endpoint that has ever had a message, at once or when the first
        arrives.

        Enter it after ``load``.
        """
        self._followers.add(found)
        try:
            for endpoint in tuple(self._served):
                found(endpoint)
            yield
        finally:
            self._followers.discard(found)

    async def withdraw(self, endpoint: str, taken: Sequence[Leased]) -> None:
        """The module disconnected before it got these: this is no attempt, and they are available again at once."""
        served = self._served.get(endpoint)
        if served is not None:
            for failed in served.endpoint.withdrawn([each.id for each in taken], self._clock()):
                await self._note_failed(endpoint, failed)

    async def ack(self, endpoint: str, ids: Sequence[str]) -> list[str]:
        """Settle these durably; returns the unknown ids."""
        await self.load()
        served = self._served.get(endpoint)
        if served is None:
            return list(ids)
        done, unknown = served.endpoint.acked(ids)
        await _each(self._settle(served.endpoint, settle) for settle in done)
        return unknown

    async def abandon(self, endpoint: str, ids: Sequence[str], why: str = ABANDONED) -> list[str]:
        """Deliver these again as the policy says; durable, returns the unknown ids.

        ``why`` is the reason in the dead letter if the policy allows no more attempts.
        """
        await self.load()
        served = self._served.get(endpoint)
        if served is None:
            return list(ids)
        found, unknown = served.endpoint.abandoned(ids, self._clock(), why)
        await _each(self._note_failed(endpoint, failed) for failed in found)
        return unknown

    async def run(self) -> None:
        """Until cancelled: handle leases that end, and move messages that are given up to the dead letters."""
        await self.load()
        while True:
            self._changed.clear()
            seconds: float | None = None
            checked_at = self._clock()  # taken first: a lease that ends meanwhile is then due at once
            try:
                await self._expire_leases()
                times = (served.endpoint.next_time(checked_at) for served in self._served.values())
                until = min((time for time in times if time is not None), default=None)
                seconds = None if until is None else max(0.0, until - self._clock())
            except Temporary as error:
                _log.warning("attempts_delayed", reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()

    @property
    def waiting(self) -> int:
        """Callers waiting for a message."""
        return sum(len(waiting) for waiting in self._waiting.values())

    def counts(self) -> dict[tuple[str, int], tuple[int, int]]:
        """By endpoint and priority: how many messages are leased, and how many wait for their next attempt."""
        return {
            (name, priority): counts
            for name, served in self._served.items()
            for priority, counts in served.endpoint.counts().items()
        }

    # ---- parts ----

    def _serve(self, endpoint: str) -> _ServedEndpoint:
        if endpoint not in self._served:
            self._served[endpoint] = _ServedEndpoint(Endpoint(policy=self._policy, uniform=self._uniform))
            for follower in tuple(self._followers):
                follower(endpoint)
        return self._served[endpoint]

    @contextlib.contextmanager
    def _waits(self, endpoint: str, changed: asyncio.Event) -> Iterator[None]:
        waiting = self._waiting.setdefault(endpoint, set())
        waiting.add(changed)
        try:
            yield
        finally:
            waiting.discard(changed)
            if not waiting:
                self._waiting.pop(endpoint, None)

    def _wake(self, endpoint: str) -> None:
        for changed in self._waiting.get(endpoint, ()):
            changed.set()

    async def _wait(self, endpoint: str, changed: asyncio.Event, deadline: float, checked_at: float) -> None:
        """Wait for a change, a due message or the deadline; returns at once if something became due since
        ``checked_at``."""
        served = self._served.get(endpoint)
        due = served.endpoint.next_time(checked_at) if served is not None else None
        until = deadline if due is None else min(deadline, due)
        with contextlib.suppress(TimeoutError):  # a message is due, or the caller's deadline has passed
            async with asyncio.timeout(max(0.0, until - self._clock())):
                await changed.wait()

    async def _take_or_nothing(self, endpoint: str, messages_max: int, lease_seconds: float) -> list[Leased]:
        """Runs in its own task: if cancelled halfway, messages would stay leased to a module that never got them."""
        task = asyncio.create_task(self._take_now(endpoint, messages_max, lease_seconds))
        self._in_work.add(task)
        task.add_done_callback(self._in_work.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(lambda done: self._undo(endpoint, done))
            raise

    def _undo(self, endpoint: str, done: asyncio.Task[list[Leased]]) -> None:
        if done.cancelled() or done.exception() is not None or not done.result():
            return
        undoing = asyncio.ensure_future(self._undone(endpoint, done.result()))
        self._in_work.add(undoing)
        undoing.add_done_callback(self._in_work.discard)

    async def _undone(self, endpoint: str, taken: list[Leased]) -> list[Leased]:
        with contextlib.suppress(Temporary):  # otherwise the lease runs out
            await self.withdraw(endpoint, taken)
        return []

    async def _take_now(self, endpoint: str, messages_max: int, lease_seconds: float) -> list[Leased]:
        served = self._served.get(endpoint)
        if served is None:
            return []
        with contextlib.suppress(Temporary):  # ``run`` tries again
            await self._expire_leases(endpoint)
        taken: list[Leased] = []
        notes: list[tuple[QueueId, tuple[Attempt, ...]]] = []
        async with served.taking:
            while len(taken) < messages_max:
                fetch = served.endpoint.wanted(self._clock(), messages_max - len(taken))
                if fetch is None or (fetch.alone and taken):
                    break
                try:
                    items = await self._outbox.fetch(
                        fetch.queue,
                        after=fetch.after,
                        now=self._clock(),
                        messages_max=fetch.messages_max,
                        bytes_max=fetch.bytes_max,
                        leaving=True,
                        only=fetch.only or None,
                    )
                except Temporary:
                    served.endpoint.appended(fetch.queue)  # it was not read: the next caller reads it
                    if not taken:
                        raise
                    break
                given = served.endpoint.fetched(
                    fetch, items, self._clock(),
                    messages_max=messages_max - len(taken), lease_seconds=lease_seconds,
                )  # fmt: skip
                self._outbox.in_flight.release(fetch.queue, given.left)
                taken += given.leased
                notes.append((fetch.queue, given.attempts))
                if fetch.alone and given.leased:
                    break
        for queue, attempts in notes:
            await self._note(queue, attempts)
        if taken:
            self._changed.set()
        return taken

    async def _expire_leases(self, only: str | None = None) -> None:
        for name in [only] if only is not None else list(self._served):
            found = self._served[name].endpoint.expire_leases(self._clock())
            # It is recorded at the next delivery: after a restart, the end of the lease has the same effect.
            await _each(self._note_failed(name, failed, durably=False) for failed in found)

    async def _note_failed(self, endpoint: str, failed: BrokeredFailed, *, durably: bool = True) -> None:
        self._outbox.in_flight.release(failed.queue, [each.offset for each in failed.again], in_doubt=True)
        if failed.again and durably:
            await self._note(failed.queue, failed.again)
        self._wake(endpoint)
        self._changed.set()
        if failed.settle is not None:
            for refusal in failed.settle.refused:
                _log.warning(
                    "dead_lettered", queue=str(failed.queue), sequence=refusal.offset, code=refusal.code,
                    reason=refusal.reason,
                )  # fmt: skip
            await self._settle(self._served[endpoint].endpoint, failed.settle)

    async def _note(self, queue: QueueId, attempts: Sequence[Attempt]) -> None:
        """A full disk does not block modules, because taking messages frees space.  At worst a restart forgets a
        lease."""
        if not attempts:
            return
        try:
            await self._outbox.note_attempts(queue, attempts)
        except Temporary as error:
            _log.warning("attempts_not_noted", queue=str(queue), messages=len(attempts), reason=str(error))

    async def _settle(self, endpoint: Endpoint, settle: BrokeredSettle) -> None:
        try:
            await self._outbox.settle(
                settle.queue,
                sent=settle.sent,
                refused=settle.refused,
                checkpoint=settle.checkpoint,
                at=self._timestamp(),
            )
        except BaseException:
            endpoint.settle_failed(settle)
            raise
        endpoint.settled(settle)


async def _each(steps: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all steps, even if one fails, because decisions for one queue must not wait for another; then raise."""
    failed: BaseException | None = None
    for step in steps:
        try:
            await step
        except Temporary as error:
            failed = failed or error
    if failed is not None:
        raise failed
