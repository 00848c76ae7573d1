"""The loop that carries out what the hub's core wants done (``Ready``).

    a change ─▶ Hub ─notify─▶ ReadyLoop.perform: take_ready ─┬▶ LinkServer.send
                                                             ├▶ StatusWriter, EventRecorder: when they are idle
                                                             └▶ CloudEventPublisher, console

Documents and Kubernetes Events stay in the core while their writer is busy: there newer ones replace older ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from fairlead_hub.events.kube_events import KubeEvent
from fairlead_hub.hub import Hub
from fairlead_hub.ready import SessionOutput
from fairlead_hub.status.status_cache import StatusWrite
from fairlead_wire.event import Event

PACE_SECONDS = 0.004
"""Minimum interval between two takes; the first after a pause happens immediately. Under load several changes then
travel together, in one write and under one ack, for 4 ms of delay."""
Item = TypeVar("Item", contravariant=True)


class FrameSender(Protocol):
    """``LinkServer``."""

    def send(self, outputs: Iterable[SessionOutput]) -> None: ...


class OutputWriter(Protocol[Item]):
    """``StatusWriter``, ``EventRecorder``."""

    @property
    def is_idle(self) -> bool:
        """Whether it is ready for ``push``."""

    def push(self, items: Sequence[Item]) -> None:
        """Write these items, possibly none; when idle again it calls ``ReadyLoop.soon``."""


class EventSink(Protocol):
    """``CloudEventPublisher``, and the console."""

    def publish(self, events: Iterable[Event]) -> None: ...


class ReadyLoop:
    """Create it in the event loop that runs it; from then on it is notified of every change."""

    def __init__(
        self,
        hub: Hub,
        sender: FrameSender,
        *,
        documents: OutputWriter[StatusWrite] | None = None,
        kube_events: OutputWriter[KubeEvent] | None = None,
        publishers: Iterable[EventSink] = (),
    ) -> None:
        self._hub, self._sender = hub, sender
        self._documents, self._kube_events = documents, kube_events
        self._publishers = list(publishers)
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time
        self._taken_at = float("-inf")
        self._scheduled: asyncio.Handle | None = None
        self._due = 0.0
        """When the next run is due.  The handle cannot tell: uvloop returns one without a time if that is past."""
        hub.subscribe(self.soon, self.at_once)
        self.soon()

    def soon(self) -> None:
        """Perform as soon as the pace allows: something changed, or a writer is idle."""
        self._at(max(self._clock(), self._taken_at + PACE_SECONDS))

    def at_once(self) -> None:
        """Perform in the next turn of the event loop: a connection waits for its frames."""
        self._at(self._clock())

    def _at(self, due: float) -> None:
        """Perform at this time, or earlier if that is already scheduled."""
        if self._scheduled is not None:
            if self._due <= due:
                return
            self._scheduled.cancel()
        self._scheduled, self._due = self._loop.call_at(due, self.perform), due

    def perform(self) -> None:
        """Take what is ready and carry it out, regardless of the number of changes.

        This runs once per ``PACE_SECONDS``, or in each turn of the event loop while a session has more than one turn
        allows.
        """
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        self._taken_at = now = self._clock()
        documents = self._documents if self._documents is not None and self._documents.is_idle else None
        kube_events = self._kube_events if self._kube_events is not None and self._kube_events.is_idle else None
        ready = self._hub.take_ready(now, documents=documents is not None, kube_events=kube_events is not None)
        if documents is not None:
            documents.push(ready.documents)
        if kube_events is not None:
            kube_events.push(ready.kube_events)
        if ready.cloud_events:
            for publisher in self._publishers:
                publisher.publish(ready.cloud_events)
        try:
            self._sender.send(ready.sessions)  # last: if anything fails with a socket, nothing that was taken is lost
        finally:
            if ready.next_turn is not None:
                # Not before the sockets have reported their room, which they do in the next turn of the loop.
                self._at(ready.next_turn if ready.next_turn <= now else max(ready.next_turn, now + PACE_SECONDS))
