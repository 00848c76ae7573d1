"""What the hub's rim is tried against: a real API server with our definitions, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.support.hubs.hub import CRDS
from tests.support.kube.cluster import Cluster

from fairlead_hub.io.cluster import api_access
from fairlead_hub.io.cluster.kube import Kube

OURS = ("syncrules", "edgeroutes", "edgenodes", "objectsyncs", "clusterobjectsyncs")


@pytest.fixture(scope="session")
def defined(cluster: Cluster) -> Cluster:
    """The cluster with our definitions."""
    cluster.apply(CRDS)
    cluster.wait_established(*(f"{plural}.fairlead.dev" for plural in OURS))
    return cluster


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Kube]:
    """A client of the cluster with every right."""
    made = Kube(api_access.load(str(cluster.kubeconfig)))
    yield made
    await made.close()
