"""Publishes events on the system topic from the program's main thread, so that batches never wait for it.

    Job, app ─publish─▶ queue (bounded) ─send─▶ messaging, which stores each once by its producer and number

While messaging is away, sending is retried every ``RETRY_SECONDS``. When the queue is full, the oldest event is
dropped, counted and logged; it is published at the next start if the table's log still has it.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from fairlead_ingest.io.metrics import IngestMetrics
from fairlead_ingest.pipeline.events import Numbered
from fairlead_messaging.api.requests import Producer
from fairlead_messaging.client.io.sync_client import Client
from fairlead_wire import event
from fairlead_wire.errors import FairleadError, Permanent, Temporary
from fairlead_wire.event import Event
from fairlead_wire.io import logs

WAITING_MAX = 1000
SEND_MAX = 100
RETRY_SECONDS = 5.0
CODE_TOPIC_MISSING = "topic_not_found"
log = logs.get("ingest.event_publisher")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    producer: str
    epoch: int
    number: int
    payload: bytes


class EventPublisher:
    """``topic`` is ``namespace/name``, ``source`` a path such as ``/fairlead/ingest/NAME``. Not thread-safe."""

    def __init__(self, client: Client, metrics: IngestMetrics, *, topic: str, source: str) -> None:
        self._client = client
        self._counts = metrics.events
        self._namespace, _, self._name = topic.partition("/")
        self._source = source
        self._waiting: deque[_Waiting] = deque()
        self._epoch = secrets.randbits(53)
        self._number = 0
        self._next_try = 0.0

    def publish_numbered(self, producer: str, events: Sequence[Numbered]) -> None:
        """Publish events that may have been published before under the same producer and numbers."""
        for each in events:
            payload = event.encode(each.event, id=f"{producer}-{each.number}", source=self._source)
            self._add(_Waiting(producer=producer, epoch=1, number=each.number, payload=payload))

    def publish(self, published: Event) -> None:
        """Publish an event of this run."""
        self._number += 1
        payload = event.encode(published, id=f"{self._epoch:x}-{self._number}", source=self._source)
        producer = f"{self._source.strip('/')}/run"
        self._add(_Waiting(producer=producer, epoch=self._epoch, number=self._number, payload=payload))

    def send(self) -> None:
        """Send the queued events, unless the last attempt failed a moment ago."""
        if not self._waiting or time.monotonic() < self._next_try:
            return
        try:
            while self._waiting:
                self._send_some()
        except Temporary as error:
            log.debug("events_delayed", count=len(self._waiting), reason=str(error))
            self._next_try = time.monotonic() + max(RETRY_SECONDS, error.retry_after_seconds or 0.0)

    def close(self) -> None:
        """Try to send once more, then drop and log what is left."""
        self._next_try = 0.0
        self.send()
        self._drop(len(self._waiting), "the program ends")
        self._client.close()

    def _add(self, one: _Waiting) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self._drop(1, "the queue is full")
        self._waiting.append(one)

    def _send_some(self) -> None:
        """Send the oldest events of one producer, in order. Raises ``Temporary``."""
        first = self._waiting[0]
        some: list[_Waiting] = []
        for each in self._waiting:
            if (each.producer, each.epoch) != (first.producer, first.epoch) or len(some) == SEND_MAX:
                break
            some.append(each)
        producer = Producer(id=first.producer, epoch=first.epoch, sequences=[each.number for each in some])
        payloads = [each.payload for each in some]
        try:
            published = self._client.publish(self._namespace, self._name, payloads, producer=producer)
        except Permanent as error:
            if error.code != CODE_TOPIC_MISSING:
                self._drop(len(some), str(error))
                return
            self._make_topic(len(some))
            return
        except Temporary:
            raise
        except FairleadError as error:
            self._drop(len(some), str(error))
            return
        self._counts.labels("published").inc(len(published.stored))
        for _ in some:
            self._waiting.popleft()

    def _make_topic(self, count: int) -> None:
        try:
            self._client.create_topic(self._namespace, self._name)
        except Permanent as error:
            self._drop(count, str(error))

    def _drop(self, count: int, reason: str) -> None:
        """Drop the oldest ``count`` events."""
        if not count:
            return
        for _ in range(count):
            self._waiting.popleft()
        self._counts.labels("dropped").inc(count)
        log.warning("events_dropped", count=count, reason=reason)
