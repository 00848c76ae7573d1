"""Writes Kubernetes Events.  They are hints: if one cannot be written, it is counted and dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fairlead_hub.events import kube_events
from fairlead_hub.events.kube_events import KubeEvent
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable
from fairlead_hub.io.cluster.kube import MERGE_PATCH, Kube
from fairlead_wire.io import logs

FLUSH_SECONDS = 1.0
IN_FLIGHT = 8
"""Parallel requests: a thousand nodes that connect are a thousand Events."""
REQUEST_SECONDS = 5.0
"""Time limit: a hint is not worth more.  Unanswered requests count as dropped."""
_log = logs.get("hub.events")


def _always() -> float:
    return REQUEST_SECONDS


class EventRecorder:
    """Runs in its own task: an unresponsive API server delays nothing but Events."""

    def __init__(self, kube: Kube, hub: str, *, seconds_left: Callable[[], float] = _always) -> None:
        """``seconds_left``: for how long this hub may still write; at 0 Events wait."""
        self._kube, self._hub, self._seconds_left = kube, hub, seconds_left
        self.dropped = 0
        self._pushed: asyncio.Queue[Sequence[KubeEvent]] = asyncio.Queue()
        self.is_idle = False
        """Whether it is ready for ``push``."""

    def push(self, items: Sequence[KubeEvent]) -> None:
        """Write these Events, possibly none.  Only while idle."""
        self.is_idle = False
        self._pushed.put_nowait(items)

    async def run(self, idle: Callable[[], None]) -> None:
        """Run until cancelled.  ``idle`` is called whenever it is ready for ``push``."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            if self._seconds_left() > 0:
                self.is_idle = True
                idle()
                try:
                    events = await self._pushed.get()
                finally:
                    self.is_idle = False
                await self.write(events)

    async def write(self, events: Sequence[KubeEvent]) -> int:
        """Create or update the Events; returns how many were written."""
        queue = list(reversed(events))
        written = 0

        async def work() -> None:
            nonlocal written
            while queue:
                if await _write(self._kube, queue.pop(), self._hub, min(REQUEST_SECONDS, self._seconds_left())):
                    written += 1
                else:
                    self.dropped += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(min(IN_FLIGHT, len(queue))):
                group.create_task(work())
        return written


async def _write(kube: Kube, event: KubeEvent, hub: str, seconds: float) -> bool:
    if seconds <= 0:
        return False
    namespace = event.regarding.namespace or "default"
    root = f"api/v1/namespaces/{namespace}/events"
    try:
        async with asyncio.timeout(seconds):
            if event.created:
                change = {"count": event.count, "lastTimestamp": event.last}
                body = {**change, "message": event.message[:1024]}
                await kube.request("PATCH", f"{root}/{event.name}", body, content_type=MERGE_PATCH, attempts=1)
            else:
                await kube.request("POST", root, kube_events.body(event, hub), attempts=1)
                event.created = True
    except (ApiRefused, ApiUnavailable, TimeoutError) as error:
        _log.debug("event_dropped", reason=str(error) or f"no answer within {seconds:g} s")
        return False
    return True
