"""What tests of the hub's watches begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.kube.cluster import Cluster

OURS = "syncrules,edgeroutes,edgenodes,clusterobjectsyncs,nodes"


@pytest.fixture
def kube(defined: Cluster) -> Iterator[Cluster]:
    """The cluster with our definitions, and without our objects afterwards."""
    yield defined
    defined.kubectl("delete", OURS, "--all", "--wait=true")
