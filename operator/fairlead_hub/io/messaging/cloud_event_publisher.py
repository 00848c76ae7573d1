"""Publishes CloudEvents on the system topic: in order, without duplicates, and without blocking the hub.

    Ready.cloud_events ─publish─▶ AsyncBufferedPublisher ─▶ messaging (the producer numbers them: repeats store nothing)

While messaging is away, events wait in bounded memory; further ones are dropped, counted and logged.  If a hub is
killed, unsent events are lost; ``hub.started`` of the next hub says so, and the status of our documents is correct.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from fairlead_hub.cluster.watch_health import RETRY_AFTER_SECONDS_MAX
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.buffered_publisher import AsyncBufferedPublisher
from fairlead_wire import event
from fairlead_wire.errors import FairleadError, Permanent, Temporary
from fairlead_wire.event import Event
from fairlead_wire.io import logs

RETRY_SECONDS = 1.0
REFUSED_RETRY_SECONDS = 30.0
POLL_SECONDS = 1.0
"""How often dropped events are reported."""
_log = logs.get("hub.cloud_events")


class CloudEventPublisher:
    """``topic`` is ``namespace/name``; ``epoch`` is a random number that identifies this run's events."""

    def __init__(self, client: AsyncClient, *, topic: str, source: str, epoch: int) -> None:
        self._client = client
        self._namespace, _, self._name = topic.partition("/")
        self._source, self._epoch = source, epoch
        self._number = 0
        self._dropped_logged = 0
        self._publisher = AsyncBufferedPublisher(
            client, self._namespace, self._name, producer_id=source.strip("/"), epoch=epoch, on_drop=self._on_drop
        )
        self._refused = asyncio.Event()

    def publish(self, events: Iterable[Event]) -> None:
        """Queue events; never blocks."""
        for each in events:
            self._number += 1
            self._publisher.publish(event.encode(each, id=f"{self._epoch:x}-{self._number}", source=self._source))

    @property
    def published(self) -> int:
        return self._publisher.published

    @property
    def dropped(self) -> int:
        """Events dropped for lack of room, refused by messaging, or given up at the end."""
        return self._publisher.dropped

    async def run(self) -> None:
        """Run until cancelled; then waiting events get a moment to be sent."""
        try:
            await self._make_topic()
            async with self._publisher:
                while True:
                    try:
                        async with asyncio.timeout(POLL_SECONDS):
                            await self._refused.wait()
                    except TimeoutError:
                        pass  # events without room are only counted
                    self._refused.clear()
                    await self._check_drops()
        finally:
            await self._publisher.close(0.0)  # again, if there never was a topic: waiting events are dropped, counted
            _log.info("cloud_events_published", events=self.published, dropped=self.dropped)

    def _on_drop(self, count: int, error: FairleadError) -> None:
        self._refused.set()

    async def _check_drops(self) -> None:
        dropped = self.dropped
        if dropped > self._dropped_logged:
            _log.warning("events_dropped", count=dropped - self._dropped_logged, total=dropped)
            self._dropped_logged = dropped
            await self._make_topic()  # it may have been deleted

    async def _make_topic(self) -> None:
        """Return once the topic exists.  Events accumulate meanwhile."""
        said = ""
        while True:
            try:
                await self._client.create_topic(self._namespace, self._name)
                return
            except Temporary as error:
                asked = min(error.retry_after_seconds or 0.0, RETRY_AFTER_SECONDS_MAX)
                reason, seconds = str(error), max(RETRY_SECONDS, asked)
            except Permanent as error:
                reason, seconds = str(error), REFUSED_RETRY_SECONDS
            if reason != said:
                _log.warning("events_delayed", topic=f"{self._namespace}/{self._name}", reason=reason)
                said = reason
            await asyncio.sleep(seconds)
