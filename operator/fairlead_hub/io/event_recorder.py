"""Writes Kubernetes Events.  They are hints: one that cannot be written is counted and left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fairlead_hub.events import kube_events
from fairlead_hub.io.kube import MERGE_PATCH, Kube, Refused, Unavailable
from fairlead_wire.io import logs

FLUSH_SECONDS = 1.0
IN_FLIGHT = 8
"""Requests beside each other: a thousand nodes that come up are a thousand Events."""
REQUEST_SECONDS = 5.0
"""A hint is not worth more; what is not answered by then counts as dropped."""
_log = logs.get("hub.events")


def _always() -> float:
    return REQUEST_SECONDS


async def run(
    kube: Kube, noted: kube_events.KubeEvents, hub: str, *, seconds_left: Callable[[], float] = _always
) -> None:
    """Until cancelled.  A task of its own: an API server that does not answer holds up nothing but Events.

    ``seconds_left``: how long this hub may write still; 0: it may not, and they wait.
    """
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        await write(kube, noted, hub, seconds_left=seconds_left)


async def write(
    kube: Kube, noted: kube_events.KubeEvents, hub: str, *, seconds_left: Callable[[], float] = _always
) -> int:
    """Create or update what is waiting; returns how many were written."""
    if seconds_left() <= 0:
        return 0
    queue = noted.take()[::-1]
    written = 0

    async def work() -> None:
        nonlocal written
        while queue:
            if await _write(kube, queue.pop(), hub, min(REQUEST_SECONDS, seconds_left())):
                written += 1
            else:
                noted.dropped += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(min(IN_FLIGHT, len(queue))):
            group.create_task(work())
    return written


async def _write(kube: Kube, event: kube_events.KubeEvent, hub: str, seconds: float) -> bool:
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
    except (Refused, Unavailable, TimeoutError) as error:
        _log.debug("event_dropped", reason=str(error) or f"no answer within {seconds:g} s")
        return False
    return True
