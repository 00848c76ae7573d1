"""The one loop that carries out what the hub's core wants done (``Ready``).

    a change ─▶ Hub ─notify─▶ ReadyLoop, soon: take_ready ─┬▶ LinkServer.send
                                                           ├▶ StatusWriter, EventRecorder: when they ask for more
                                                           └▶ CloudEventPublisher, console

Documents and Kubernetes Events stay in the core until their writer asks: there the newest replaces what is older.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.events.kube_events import KubeEvent
from fairlead_hub.hub import Hub
from fairlead_hub.status.status_cache import StatusWrite
from fairlead_wire.event import Event

PACE_SECONDS = 0.004
"""What is ready is taken at most so often; the first after a pause at once.

Under load a few changes then travel together, in one write and under one ack, for 4 ms of delay.
"""


class FrameSender(Protocol):
    """``LinkServer``."""

    def send(self, sessions: Iterable[NodeSession]) -> None: ...


class EventSink(Protocol):
    """``CloudEventPublisher``, and the console."""

    def publish(self, events: Iterable[Event]) -> None: ...


class ReadyLoop:
    """Made in the event loop that runs it; from then on it hears of every change."""

    def __init__(self, hub: Hub, sender: FrameSender, *publishers: EventSink | None) -> None:
        self._hub, self._sender = hub, sender
        self._publishers = [each for each in publishers if each is not None]
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time
        self._taken_at = float("-inf")
        self._documents: asyncio.Future[list[StatusWrite]] | None = None
        self._kube_events: asyncio.Future[list[KubeEvent]] | None = None
        self._scheduled: asyncio.Handle | None = None
        self._due = 0.0
        """When that is.  A handle cannot be asked: for a time that is over uvloop returns one without a time."""
        hub.subscribe(self._soon)
        self._soon()

    async def documents(self) -> list[StatusWrite]:
        """What there is to write now; perhaps nothing."""
        self._documents = self._loop.create_future()
        self._soon()
        return await self._documents

    async def kube_events(self) -> list[KubeEvent]:
        """What there is to write now; perhaps nothing."""
        self._kube_events = self._loop.create_future()
        self._soon()
        return await self._kube_events

    def _soon(self) -> None:
        self._at(self._clock())

    def _at(self, due: float) -> None:
        """Perform at this time, or earlier where that is arranged already; not before the pace allows it."""
        due = max(due, self._taken_at + PACE_SECONDS)
        if self._scheduled is not None:
            if self._due <= due:
                return
            self._scheduled.cancel()
        self._scheduled, self._due = self._loop.call_at(due, self.perform), due

    def perform(self) -> None:
        """Take what is ready and do it; once in ``PACE_SECONDS``, however many changes there were."""
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        self._taken_at = now = self._clock()
        documents = self._documents if self._documents is not None and not self._documents.done() else None
        kube_events = self._kube_events if self._kube_events is not None and not self._kube_events.done() else None
        ready = self._hub.take_ready(now, documents=documents is not None, kube_events=kube_events is not None)
        if documents is not None:
            documents.set_result(ready.documents)
        if kube_events is not None:
            kube_events.set_result(ready.kube_events)
        if ready.cloud_events:
            for publisher in self._publishers:
                publisher.publish(ready.cloud_events)
        self._sender.send(ready.sessions)  # last: whatever goes wrong with a socket, nothing taken is lost
        if (turn := self._hub.next_turn(now)) is not None:
            self._at(turn)
