"""Hands messages of brokered endpoints to their modules, under lease (``lease.Leases``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from fairlead_edge.outbox.checkpoint import NOTHING_DONE
from fairlead_edge.outbox.lease import Leased, Leases
from fairlead_edge.outbox.outbox import Outbox
from fairlead_edge.outbox.queue_id import QueueId
from fairlead_edge.routes.sink import UPSTREAM

TAKE_MESSAGES_MAX: Final = 100
TAKE_BYTES_MAX: Final = 4 * 1024 * 1024
WAIT_SECONDS_MAX: Final = 60.0


class Broker:
    """Serves every endpoint but upstream.  ``clock`` is the store's clock, ``timestamp`` RFC 3339 text."""

    def __init__(self, outbox: Outbox, *, clock: Callable[[], float], timestamp: Callable[[], str]) -> None:
        self._outbox = outbox
        self._clock = clock
        self._timestamp = timestamp
        self._queues: dict[str, set[QueueId]] = {}
        self._leases: dict[str, Leases] = {}
        self._waiting: dict[str, set[asyncio.Event]] = {}

    async def load(self) -> None:
        """Find the queues that lie on disk."""
        self._know(await self._outbox.queues())

    def appended(self, queues: Iterable[QueueId]) -> None:
        """Something was stored under these queues."""
        for endpoint in self._know(queues):
            self._wake(endpoint)

    async def take(self, endpoint: str, *, messages_max: int, wait_seconds: float) -> list[Leased]:
        """Up to ``messages_max`` messages, most urgent first; waits for the first one.  Empty when none came."""
        deadline = self._clock() + wait_seconds
        changed = asyncio.Event()
        waiting = self._waiting.setdefault(endpoint, set())
        waiting.add(changed)
        try:
            while True:
                changed.clear()
                taken = await self._take_now(endpoint, messages_max)
                if taken or self._clock() >= deadline:
                    return taken
                await self._wait(endpoint, changed, deadline)
        finally:
            waiting.discard(changed)
            if not waiting:
                self._waiting.pop(endpoint, None)

    async def ack(self, endpoint: str, ids: Sequence[str]) -> list[str]:
        """These are done, durably; returns the ids that were not leased."""
        done, unknown = self._leases_of(endpoint).ack(ids)
        for queue, offsets in done.items():
            await self._outbox.settle(queue, sent=offsets, checkpoint=NOTHING_DONE, at=self._timestamp())
        return unknown

    def abandon(self, endpoint: str, ids: Sequence[str]) -> list[str]:
        """These are there again at once; returns the ids that were not leased."""
        given, unknown = self._leases_of(endpoint).abandon(ids, self._clock())
        for queue, offsets in given.items():
            self._outbox.in_flight.give_back(queue, offsets, in_doubt=True)
        self._wake(endpoint)
        return unknown

    def forget_ended(self) -> None:
        """What no module will acknowledge any more may expire and be evicted like anything else."""
        for leases in self._leases.values():
            for queue, offsets in leases.forget_ended(self._clock()).items():
                self._outbox.in_flight.give_back(queue, offsets, in_doubt=True)

    def _know(self, queues: Iterable[QueueId]) -> set[str]:
        """Remember brokered queues; returns their endpoints."""
        brokered = [queue for queue in queues if queue.endpoint != UPSTREAM]
        for queue in brokered:
            self._queues.setdefault(queue.endpoint, set()).add(queue)
            self._leases.setdefault(queue.endpoint, Leases())
        return {queue.endpoint for queue in brokered}

    def _leases_of(self, endpoint: str) -> Leases:
        """Endpoints without a message yet have none; asking for them leaves nothing behind."""
        return self._leases.get(endpoint) or Leases()

    def _wake(self, endpoint: str) -> None:
        for changed in self._waiting.get(endpoint, ()):
            changed.set()

    async def _wait(self, endpoint: str, changed: asyncio.Event, deadline: float) -> None:
        now = self._clock()
        lease_end = self._leases_of(endpoint).next_end(now)
        until = deadline if lease_end is None else min(deadline, lease_end)
        try:
            async with asyncio.timeout(max(0.0, until - now)):
                await changed.wait()
        except TimeoutError:
            pass  # a lease ended, or the caller's patience did

    async def _take_now(self, endpoint: str, messages_max: int) -> list[Leased]:
        leases = self._leases_of(endpoint)
        self.forget_ended()
        taken: list[Leased] = []
        for queue in sorted(self._queues.get(endpoint, ())):
            wanted = min(messages_max - len(taken), leases.room(self._clock()))
            if wanted <= 0:
                break
            held = leases.held(queue, self._clock())
            items = await self._outbox.fetch(
                queue,
                after=NOTHING_DONE,
                now=self._clock(),
                messages_max=wanted + len(held),
                bytes_max=TAKE_BYTES_MAX,
                leaving=True,
            )
            # Leased meanwhile by another caller, or before: not ours.
            held = leases.held(queue, self._clock())
            free = [item for item in items if item.offset not in held]
            taken += leases.take(queue, free[:wanted], self._clock())
            self._outbox.in_flight.give_back(queue, [item.offset for item in free[wanted:]])
            self._outbox.in_flight.take(queue, [item.offset for item in free[:wanted]])
        return taken
