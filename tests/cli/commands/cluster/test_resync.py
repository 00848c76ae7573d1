"""`fairlead resync` on a real API server: what is written, and what is said."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from tests.support.hubs.hub import config_map
from tests.support.kube import written_by_hand
from tests.support.kube.cluster import Cluster

from fairlead_cli.main import build


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Cluster]:
    """A connected node and one that is away."""
    written_by_hand.install(cluster)
    written_by_hand.edge_node(cluster, "act-1")
    written_by_hand.edge_node(cluster, "act-2", connected=False)
    cluster.apply(config_map("prices", "act-test", v="1"))
    yield cluster
    written_by_hand.remove(cluster)


def run(cluster: Cluster, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(build(), ["resync", "--kubeconfig", str(cluster.kubeconfig), *words])
    return done.exit_code, done.output.strip()


def test_each_time_is_a_new_value(installed: Cluster) -> None:
    assert run(installed, "act-1") == (0, "node/act-1: requested a comparison from the hub")
    first = written_by_hand.instructions(installed, "enode", "act-1")["fairlead.dev/resync"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first)
    code, said = run(installed, "act-1", "configmap/prices", "-n", "act-test")
    assert code == 0 and said.splitlines() == [
        "node/act-1: requested a comparison from the hub",
        "to see the state of the object: fairlead explain configmap/prices -n act-test --node act-1",
    ]
    assert written_by_hand.instructions(installed, "enode", "act-1")["fairlead.dev/resync"] > first


def test_nodes_that_cannot_be_compared_now(installed: Cluster) -> None:
    assert run(installed, "act-2") == (
        0,
        "node/act-2 is not connected; it will be compared when it reconnects",
    )
    installed.kubectl("annotate", "enode", "act-1", "fairlead.dev/paused=x")
    code, said = run(installed, "act-1")
    installed.kubectl("annotate", "enode", "act-1", "fairlead.dev/paused-")
    assert code == 0 and said.endswith("it is paused, so nothing is sent: fairlead resume act-1")
    assert run(installed, "act-9")[0] == 1 and run(installed, "act-1", "configmap/none")[0] == 1
