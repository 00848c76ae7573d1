"""Delivers messages of the broker to subscribers: a delivery is a lease, its PUBACK the acknowledgement.

Programs that pull the same input over HTTP share its queue.  When a connection ends, its unacknowledged messages are
abandoned: each is delivered again separately, as the delivery policy says.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Protocol, TypeVar

from fairlead_edge.io.outbox.broker import TAKE_MESSAGES_MAX, WAIT_SECONDS_MAX, ModuleBroker
from fairlead_edge.mqtt.session import Acknowledged, Subscribed
from fairlead_edge.mqtt.status import Counters
from fairlead_edge.outbox.brokered.endpoint import Leased
from fairlead_edge.outbox.brokered.priority import ABANDONED
from fairlead_wire.errors import Temporary
from fairlead_wire.io import logs

RETRY_SECONDS: Final = 1.0
CONNECTION_ENDED: Final = "the client's connection ended before the acknowledgement"
INPUTS_MAX: Final = 100
"""The most inputs of a module that subscribes to all of them."""

_What = TypeVar("_What")

_log = logs.get("edge.mqtt")


class Subscriber(Protocol):
    """What deliveries need of a connection."""

    async def ready(self) -> int:
        """Wait until messages can be delivered to it; returns how many."""
        ...

    @property
    def room(self) -> int:
        """How many can be delivered now."""
        ...

    @property
    def has_unacknowledged(self) -> bool:
        """Whether it has unacknowledged messages."""
        ...

    def alone(self) -> contextlib.AbstractAsyncContextManager[bool]:
        """Waits until it has acknowledged everything or its leases have ended; inside, nothing else is delivered.

        Yields whether a message can be delivered.
        """
        ...

    def deliver(self, subscribed: Subscribed, input: str, endpoint: str, leased: Iterable[Leased]) -> dict[str, str]:
        """Deliver these; returns by id why some cannot be written."""
        ...


class MqttDeliveries:
    """One per agent."""

    def __init__(self, broker: ModuleBroker, *, node: str, counters: Counters) -> None:
        self._broker = broker
        self._node = node
        self._counters = counters
        self._tasks: dict[int, dict[str, asyncio.Task[None]]] = {}
        self._settling: set[asyncio.Task[None]] = set()
        self._acknowledged: defaultdict[str, list[str]] = defaultdict(list)
        self._abandoned: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        """Messages by endpoint and reason."""
        self._withdrawn: defaultdict[str, list[Leased]] = defaultdict(list)

    def begin(self, subscriber: Subscriber, subscribed: Subscribed) -> None:
        """Deliver messages of these inputs to the subscriber from now on."""
        self.end(subscriber, subscribed.inputs.filter)
        serve = (
            self._serve_all(subscriber, subscribed)
            if not subscribed.inputs.input
            else self._serve_one(subscriber, subscribed, subscribed.inputs.input)
        )
        tasks = self._tasks.setdefault(id(subscriber), {})
        tasks[subscribed.inputs.filter] = asyncio.create_task(serve, name=f"mqtt {subscribed.inputs.filter}")

    def end(self, subscriber: Subscriber, filter: str) -> None:
        """It unsubscribed; it may still acknowledge the messages it has."""
        task = self._tasks.get(id(subscriber), {}).pop(filter, None)
        if task is not None:
            task.cancel()

    def end_all(self, subscriber: Subscriber, had: Iterable[tuple[str, str]]) -> None:
        """Its connection ended; ``had``: endpoint and id of its unacknowledged messages."""
        for task in self._tasks.pop(id(subscriber), {}).values():
            task.cancel()
        for endpoint, id_ in had:
            self._abandoned[endpoint, CONNECTION_ENDED].append(id_)
        self._settle_soon()

    def acknowledge(self, acknowledged: Iterable[Acknowledged]) -> None:
        """The subscriber acknowledged these, or rejected them."""
        for each in acknowledged:
            if each.done:
                self._acknowledged[each.endpoint].append(each.id)
            else:
                self._abandoned[each.endpoint, ABANDONED].append(each.id)
        self._settle_soon()

    async def close(self) -> None:
        """Wait until all acknowledgements are recorded; called when no connection is left."""
        while self._settling:
            await asyncio.gather(*self._settling, return_exceptions=True)

    # ---- giving ----

    async def _serve_all(self, subscriber: Subscriber, subscribed: Subscribed) -> None:
        prefix = f"{self._node}/{subscribed.inputs.module}/"
        await self._broker.load()
        async with asyncio.TaskGroup() as group:
            served: set[str] = set()

            def found(endpoint: str) -> None:
                if endpoint.startswith(prefix) and endpoint not in served and len(served) < INPUTS_MAX:
                    served.add(endpoint)
                    group.create_task(self._serve_one(subscriber, subscribed, endpoint.removeprefix(prefix)))

            with self._broker.followed(found):
                await asyncio.get_running_loop().create_future()

    async def _serve_one(self, subscriber: Subscriber, subscribed: Subscribed, input: str) -> None:
        endpoint = f"{self._node}/{subscribed.inputs.module}/{input}"
        while True:
            room = await subscriber.ready()
            try:
                taken = await self._broker.take(
                    endpoint, messages_max=min(room, TAKE_MESSAGES_MAX), wait_seconds=WAIT_SECONDS_MAX
                )
            except Temporary as error:
                _log.warning("mqtt_delivery_delayed", endpoint=endpoint, reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)
                continue
            # No await until they are delivered or withdrawn, so that no message is lost between the two.
            if subscribed.qos and subscriber.has_unacknowledged and any(each.attempt > 1 for each in taken):
                self._withdrawn[endpoint].extend(taken)
                self._settle_soon()
                await self._deliver_alone(subscriber, subscribed, input, endpoint)
                continue
            # Another subscription of the same client may have used the room.
            self._deliver(subscriber, subscribed, input, endpoint, taken, subscriber.room)

    async def _deliver_alone(self, subscriber: Subscriber, subscribed: Subscribed, input: str, endpoint: str) -> None:
        """Deliver messages that failed before only to a client without others: if one crashes the client, no other
        fails
        with it."""
        async with subscriber.alone() as has_room:
            with contextlib.suppress(Temporary):
                await self.close()  # withdrawn messages are available again
                taken = await self._broker.take(endpoint, messages_max=1, wait_seconds=0.0) if has_room else []
                self._deliver(subscriber, subscribed, input, endpoint, taken, 1)

    def _deliver(
        self,
        subscriber: Subscriber,
        subscribed: Subscribed,
        input: str,
        endpoint: str,
        taken: Sequence[Leased],
        room: int,
    ) -> None:
        fits, over = taken[:room], taken[room:]
        wrong = subscriber.deliver(subscribed, input, endpoint, fits)
        given = [each.id for each in fits if each.id not in wrong]
        self._counters.delivered += len(given)
        if not subscribed.qos and given:
            self._acknowledged[endpoint].extend(given)
        for id, why in wrong.items():
            self._counters.undeliverable += 1
            self._abandoned[endpoint, why].append(id)
            _log.warning("mqtt_undeliverable", endpoint=endpoint, message=id, reason=why)
        if over:
            self._withdrawn[endpoint].extend(over)
        self._settle_soon()

    # ---- settling ----

    def _settle_soon(self) -> None:
        if (self._acknowledged or self._abandoned or self._withdrawn) and not self._settling:
            task = asyncio.create_task(self._settle(), name="mqtt acknowledgements")
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

    async def _settle(self) -> None:
        """One step for all connections; the next acknowledgements gather while it is written to disk."""
        while self._acknowledged or self._abandoned or self._withdrawn:
            done, self._acknowledged = self._acknowledged, defaultdict(list)
            again, self._abandoned = self._abandoned, defaultdict(list)
            back, self._withdrawn = self._withdrawn, defaultdict(list)
            await asyncio.gather(
                *(self._report(self._broker.ack, endpoint, ids) for endpoint, ids in done.items()),
                *(
                    self._report(functools.partial(self._broker.abandon, why=why), endpoint, ids)
                    for (endpoint, why), ids in again.items()
                ),
                *(self._report(self._broker.withdraw, endpoint, leased) for endpoint, leased in back.items()),
            )

    @staticmethod
    async def _report(
        report: Callable[[str, list[_What]], Awaitable[object]], endpoint: str, what: list[_What]
    ) -> None:
        # If this cannot be recorded, the lease runs out and the message is delivered again.
        with contextlib.suppress(Temporary):
            await report(endpoint, what)
