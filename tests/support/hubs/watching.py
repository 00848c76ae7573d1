"""A hub's core fed by its watches from a real API server, without sessions of nodes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.support.kube.cluster import Cluster

from fairlead_hub.hub import Hub
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.io.cluster.watches import Reflectors
from fairlead_hub.io.io_counts import IoCounts
from fairlead_hub.settings import HubSettings
from fairlead_hub.wall_clock import WallClock


@contextlib.asynccontextmanager
async def watching(kube: Kube, counts: IoCounts | None = None) -> AsyncIterator[Hub]:
    """A core with running watches."""
    loop = asyncio.get_running_loop()
    hub = Hub(HubSettings(security="insecure"), name="hub-1", fence=1, clock=WallClock(lambda: 0.0))

    def take_soon() -> None:
        loop.call_soon(lambda: hub.take_ready(loop.time(), documents=False, kube_events=False))

    hub.subscribe(take_soon)
    task = asyncio.create_task(Reflectors(kube, hub, clock=loop.time, counts=counts).run())
    try:
        yield hub
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def own(hub: Hub, namespace: str) -> set[str]:
    """Names of the namespace's objects that edge-1 should hold, without the one that Kubernetes adds."""
    wanted = {
        live.resource.name
        for live in hub.desired_state.desired_objects("edge-1").values()
        if live.resource.namespace == namespace
    }
    return wanted - {"kube-root-ca.crt"}


async def apply(kube: Cluster, *objects: dict[str, Any]) -> None:
    """Apply objects while the watches run."""
    await asyncio.to_thread(kube.apply, list(objects))
