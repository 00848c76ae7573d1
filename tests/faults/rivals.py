"""Two hubs and one Lease, each behind its own proxy: a fault affects one, and the other takes over."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Generic, TypeVar

from tests.support.hubs.hub import CRDS, HubProcess, until
from tests.support.kube.api_front import ApiFront
from tests.support.kube.cluster import Cluster

TAKE_OVER_SECONDS = 120.0
"""The promise is 15; this machine may be busy."""


class Rival:
    """One hub, which reaches the API server through its proxy."""

    def __init__(self, cluster: Cluster, front: ApiFront, folder: Path, hub: HubProcess) -> None:
        config = json.loads(cluster.kubectl("config", "view", "--raw", "-o", "json"))
        config["clusters"][0]["cluster"] = {"server": front.url}
        config["contexts"][0]["context"]["namespace"] = "default"
        (folder / "kubeconfig").write_text(json.dumps(config))
        hub.config.write_text(hub.config.read_text().replace(str(cluster.kubeconfig), str(folder / "kubeconfig")))
        self.front, self.folder, self.hub = front, folder, hub

    @property
    def pid(self) -> int:
        assert self.hub.running is not None
        return self.hub.running.process.pid

    @property
    def is_alive(self) -> bool:
        return self.hub.running is not None and self.hub.running.alive

    @property
    def is_ready(self) -> bool:
        """Only the hub that leads is."""
        try:
            return self.is_alive and self.hub.text("/readyz") == "ok\n"
        except OSError:
            return False


R = TypeVar("R", bound=Rival)


class Rivals(Generic[R]):
    """Both of them."""

    def __init__(self, one: R, two: R) -> None:
        self._both = (one, two)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Both are started, and killed at the end, even one that is stopped."""
        for each in self._both:
            each.hub.start(ready=False)
        try:
            yield
        finally:
            for each in self._both:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each.pid, signal.SIGCONT)
                await asyncio.to_thread(each.hub.kill)

    async def leader(self) -> tuple[R, R]:
        """Who leads, and who waits."""

        def ready() -> list[R]:
            return [each for each in self._both if each.is_ready]

        await until("one hub leads", lambda: len(ready()) == 1, seconds=TAKE_OVER_SECONDS)
        [leader] = ready()
        [other] = [each for each in self._both if each is not leader]
        return leader, other

    def require_no_defects(self) -> None:
        """Raises for a traceback in a log."""
        for each in self._both:
            log = (each.folder / "hub.log").read_text()
            if '"traceback"' in log:
                raise AssertionError(f"a hub logged a defect of its own:\n{log[-4000:]}")


def define(cluster: Cluster) -> None:
    """Start it, with our definitions."""
    cluster.start()
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
