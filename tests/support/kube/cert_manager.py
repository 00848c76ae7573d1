"""cert-manager on a real API server: its own definitions and its own controllers, built once by e2e/controlplane.

CertManager(cluster, folder).start()  ─▶  definitions applied, controllers run until stop()
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from e2e.controlplane import build
from tests.support.kube.assets import assets
from tests.support.kube.cluster import Cluster
from tests.support.processes import Running, start, wait_until

NAME = "cert-manager"
REASON = (
    "cert-manager is not here; `python e2e/controlplane/build.py cert-manager` builds it once (make verify does, too)"
)
CRDS = tuple(f"{kind}.cert-manager.io" for kind in ("certificaterequests", "certificates", "clusterissuers", "issuers"))
STARTED_SECONDS = 100.0


@functools.cache
def program() -> Path | None:
    """The controllers, from the cache; built (two minutes) where FAIRLEAD_E2E=required; else None."""
    if os.environ.get("FAIRLEAD_E2E") == "required":
        return assets(NAME) / NAME
    built = build.place(NAME, build.cache_root(os.environ)) / NAME
    return built if build.is_program(built) else None


class CertManager:
    """Its controllers as one process beside a cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self._running: Running | None = None

    def start(self) -> CertManager:
        found = program()
        assert found is not None, REASON
        self._cluster.kubectl("apply", "--server-side", "-f", str(found.parent / "crds"))
        self._cluster.wait_established(*CRDS)
        log = self._folder / "cert-manager.log"
        running = start(NAME, [str(found), str(self._cluster.kubeconfig)], log)
        self._running = running

        def started() -> bool:
            running.require_alive()
            return "controllers started" in log.read_text()

        wait_until("cert-manager's controllers started", started, seconds=STARTED_SECONDS, describe=running.tail)
        return self

    def stop(self) -> None:
        if self._running is not None:
            self._running.kill()

    def tail(self) -> str:
        return self._running.tail() if self._running else ""
