"""Carries CloudEvents to the system topic: in order, each once however often it is sent, never waited for.

    Announcements ─take▶ AsyncBufferedPublisher ─▶ messaging (the producer's numbers make a repeat store nothing)

Messaging away: events wait in bounded memory, what does not fit is dropped, counted and logged.  A hub that is killed
takes what was not sent yet with it; ``hub.started`` of the next one says so, and the records know what is true.
"""

from __future__ import annotations

import asyncio

from fairlead_hub.cluster.watch_backoff import RETRY_AFTER_SECONDS_MAX
from fairlead_hub.events.cloud_events import CloudEvents
from fairlead_messaging.client.io.async_buffered import AsyncBufferedPublisher
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_wire import event
from fairlead_wire.errors import Permanent, Temporary
from fairlead_wire.io import logs

RETRY_SECONDS = 1.0
REFUSED_RETRY_SECONDS = 30.0
_log = logs.get("hub.announcer")


class CloudEventPublisher:
    """``topic`` is ``namespace/name``; ``epoch`` a random number of this run, by which its events are told apart."""

    def __init__(self, cloud_events: CloudEvents, client: AsyncClient, *, topic: str, source: str, epoch: int) -> None:
        self._cloud_events, self._client = cloud_events, client
        self._namespace, _, self._name = topic.partition("/")
        self._source, self._epoch = source, epoch
        self._number = 0
        self._something = asyncio.Event()
        self._dropped_seen = 0
        self._publisher = AsyncBufferedPublisher(
            client, self._namespace, self._name, producer_id=source.strip("/"), epoch=epoch
        )
        cloud_events.carrier = self

    def wake(self) -> None:
        self._something.set()

    @property
    def published(self) -> int:
        return self._publisher.published

    @property
    def dropped(self) -> int:
        return self._publisher.dropped

    async def run(self) -> None:
        """Until cancelled; then what waits has a moment to leave."""
        try:
            await self._make_topic()
            async with self._publisher:
                try:
                    while True:
                        await self._something.wait()
                        self._something.clear()
                        self._pass_on()
                        await self._look_at_drops()
                finally:
                    self._pass_on()
        finally:
            self._cloud_events.give_up()
            _log.info("announced", events=self.published, dropped=self._cloud_events.dropped)

    def _pass_on(self) -> None:
        for each in self._cloud_events.take():
            self._number += 1
            self._publisher.publish(event.encode(each, id=f"{self._epoch:x}-{self._number}", source=self._source))

    async def _look_at_drops(self) -> None:
        dropped = self._cloud_events.dropped
        if dropped > self._dropped_seen:
            _log.warning("events_dropped", count=dropped - self._dropped_seen, total=dropped)
            self._dropped_seen = dropped
            await self._make_topic()  # somebody may have deleted it

    async def _make_topic(self) -> None:
        """Return once it is there.  Events gather meanwhile."""
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
