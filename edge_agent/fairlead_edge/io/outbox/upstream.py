"""The upstream path as a whole: ``app`` runs it, gives it routes, and reads its status.

local_api ─▶ Publisher ─▶ SqliteOutbox ─▶ UpstreamPump ─▶ link
                                 │  └──────▶ Broker ─▶ modules on this node
                                 └─ ExpirySweeper
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Final, Protocol

from fairlead_edge.errors import StoreFailed, StoreFull
from fairlead_edge.io.outbox.broker import ModuleBroker
from fairlead_edge.io.outbox.inputs import Inputs
from fairlead_edge.io.outbox.publisher import MessagePublisher
from fairlead_edge.io.outbox.receipts import EdgeReceipts, TablesLink
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.io.outbox.store_clock import timestamp
from fairlead_edge.io.outbox.upstream_pump import LinePlan, UpstreamLink, UpstreamPump
from fairlead_edge.outbox import publishing
from fairlead_edge.outbox.delivery import BROKERED_POLICY, UPSTREAM_POLICY
from fairlead_edge.outbox.outbox import Outbox, OutboxStatus
from fairlead_edge.outbox.queues import NOTHING_DONE, QueueId, is_held_for_routes
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.errors import Temporary
from fairlead_wire.io import logs
from fairlead_wire.io.spans import Spans

RETRY_SECONDS: Final = 1.0
ROUTED_AGAIN_MESSAGES: Final = 256
ROUTED_AGAIN_BYTES: Final = 1024 * 1024
"""How many held messages one step routes."""
ID_BITS: Final = 128
"""As unique as a UUID, without a system call for each: ids are names, not secrets."""

_log = logs.get("edge.upstream")
_expiry_log = logs.get("edge.expiry")


class _WholeLink(UpstreamLink, TablesLink, Protocol):
    """What the upstream path needs of the link."""


class UpstreamService:
    """One per agent, on an open outbox; the owner of the outbox stamps its clock and closes it.

    ``cleanup_seconds`` and ``check_entire_queue`` are the settings of ``[cleanup]``, ``evict`` that of ``[store]``.
    ``random``, seeded by the system, makes message ids and jitter.  ``policy`` says when a batch that the hub did not
    accept is sent again, ``brokered_policy`` when a message that a module did not acknowledge is delivered again.
    ``plan`` is the data plan of the link, the shares are those of ``[pump]``.
    """

    def __init__(
        self,
        *,
        outbox: SqliteOutbox,
        node: str,
        link: _WholeLink,
        random: Random,
        cleanup_seconds: float,
        check_entire_queue: bool,
        evict: bool = False,
        policy: DeliveryPolicy = UPSTREAM_POLICY,
        brokered_policy: DeliveryPolicy = BROKERED_POLICY,
        spans: Spans | None = None,
        modules_have_tokens: bool = False,
        plan: LinePlan | None = None,
        floor_share: float = 0.0,
        live_first_share: float = 0.0,
    ) -> None:
        self.node = node
        self._ttl_seconds: Mapping[str, int | None] = {}
        self._ttl_changed = asyncio.Event()
        self._router: publishing.MessageRouter | None = None
        self._routes_changed = asyncio.Event()
        self.outbox = outbox
        self.policies: Mapping[str, DeliveryPolicy] = {"upstream": policy, "brokered": brokered_policy}
        """The retry policies."""
        clock = outbox.now
        self.receipts = EdgeReceipts(outbox, link, clock=clock, modules_have_tokens=modules_have_tokens)
        self.pump = UpstreamPump(
            self.outbox,
            link,
            clock=clock,
            timestamp=timestamp,
            uniform=random.random,
            policy=policy,
            spans=spans,
            departed=self.receipts,
            plan=plan,
            floor_share=floor_share,
            live_first_share=live_first_share,
        )
        self.broker = ModuleBroker(
            self.outbox, clock=clock, timestamp=timestamp, uniform=random.random, policy=brokered_policy
        )
        self.sweeper = ExpirySweeper(
            self.outbox,
            clock=clock,
            interval_seconds=cleanup_seconds,
            entire=check_entire_queue,
        )
        self.publisher = MessagePublisher(
            self.outbox,
            clock=clock,
            timestamp=timestamp,
            new_id=lambda: f"{random.getrandbits(ID_BITS):032x}",
            make_room=lambda: self.sweeper.sweep(entire=True),
            appended=self._appended,
            evict=evict,
            spans=spans,
            lane=self.pump.lane,
        )

        self.inputs = Inputs(
            self.outbox,
            node=node,
            refuse_if_closed=self.publisher.refuse_if_closed,
            make_room=lambda: self.sweeper.sweep(entire=True),
            appended=self._appended,
        )

    def use_router(self, router: publishing.MessageRouter | None, unusable: str = "") -> None:
        """Route messages by this from now on; None: requests are refused as not ready, with the reason."""
        self.publisher.use_router(router, unusable)
        self._router = router
        self._routes_changed.set()

    def inherit(self, ttl_seconds: Mapping[str, int | None]) -> None:
        """Set the time to live of messages whose route has none, by EdgeRoutes object, including those that wait."""
        self._ttl_seconds = ttl_seconds
        self._ttl_changed.set()

    async def run(self) -> None:
        """Until cancelled.  Raises ``StoreFailed``: the program must end then."""
        try:
            async with asyncio.TaskGroup() as parts:
                for part in (
                    self._keep_inherited,
                    self._route_held,
                    self.pump.run,
                    self.broker.run,
                    self.sweeper.run,
                    self.receipts.run,
                ):
                    parts.create_task(part())
        except BaseExceptionGroup as group:
            failed = group.subgroup(StoreFailed)
            if failed is None:
                raise
            raise _first(failed) from group

    async def _keep_inherited(self) -> None:
        while True:
            await self._ttl_changed.wait()
            self._ttl_changed.clear()
            try:
                await self.outbox.inherit(self._ttl_seconds, now=self.outbox.now())
            except Temporary as error:  # a full disk: nothing expires too early; retry
                _log.warning("time_to_live_delayed", reason=str(error))
                self._ttl_changed.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def _route_held(self) -> None:
        """Whenever the routes change, route the messages that were held for a refused route."""
        while True:
            await self._routes_changed.wait()
            self._routes_changed.clear()
            try:
                for queue in await self.outbox.queues():
                    if is_held_for_routes(queue.endpoint):
                        await self._route_queue(queue)
            except Temporary as error:  # a full store: hold them until there is space
                _log.warning("held_messages_delayed", reason=str(error))
                self._routes_changed.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def _route_queue(self, queue: QueueId) -> None:
        after, routed = NOTHING_DONE, 0
        while self._router is not None:
            now = self.outbox.now()
            page = await self.outbox.fetch(
                queue, after=after, now=now, messages_max=ROUTED_AGAIN_MESSAGES, bytes_max=ROUTED_AGAIN_BYTES
            )
            if not page:
                break
            after = page[-1].offset
            found = publishing.plan_again(page, self._router, now=now, lane=self.pump.lane)
            if found:
                routed += await self.outbox.route_again(queue, found, now=now)
                entries = [entry for _, entry in found if entry is not None]
                self._appended({reference.queue for entry in entries for reference in entry.references})
                self.publisher.counters["routed_again"] += len(entries)
                self.publisher.counters["no_route"] += len(found) - len(entries)
        if routed:
            _log.info("held_messages_routed", queue=str(queue), messages=routed)

    async def status(self) -> OutboxStatus:
        return await self.outbox.status(now=self.outbox.now())

    async def replay(self, numbers: Sequence[int] | None) -> int:
        """Put dead letters back into their queues; returns how many."""
        self.publisher.refuse_if_closed()
        replayed = await self.outbox.replay(numbers, now=self.outbox.now())
        self._appended(await self.outbox.queues())
        return replayed

    async def discard(self, numbers: Sequence[int]) -> int:
        """Delete dead letters; returns how many."""
        self.publisher.refuse_if_closed()
        return await self.outbox.discard(numbers)

    def _appended(self, queues: Iterable[QueueId]) -> None:
        found = list(queues)
        self.pump.appended(found)
        self.broker.appended(found)


class ExpirySweeper:
    """Removes expired messages: periodically, and at once when a producer finds the store full.

    ``interval_seconds`` is the time between rounds; the first is at the start.  ``entire``: search the whole queues,
    not
    only their heads.  That costs a scan of the expiry index, and also frees the space of short-lived messages behind
    long-lived ones.
    """

    def __init__(
        self,
        outbox: Outbox,
        *,
        clock: Callable[[], float],
        interval_seconds: float,
        entire: bool,
    ) -> None:
        self._outbox = outbox
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._entire = entire

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.sweep(entire=self._entire)
            await asyncio.sleep(self._interval_seconds)

    async def sweep(self, *, entire: bool) -> int:
        """One round, in small steps so that producers get their turn; returns how many were removed.

        Afterwards a file that is mostly unused is shrunk.
        """
        swept = 0
        try:
            while count := await self._outbox.sweep(now=self._clock(), entire=entire):
                swept += count
            while await self._outbox.shrink():
                pass
        except StoreFull as error:
            _expiry_log.warning("sweep_delayed", reason=str(error))
        if swept:
            _expiry_log.info("expired_swept", messages=swept)
        return swept


def _first(group: BaseExceptionGroup[StoreFailed]) -> BaseException:
    """One of the errors in the group, at any depth: they all concern the same disk."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
