"""`fairlead pause` and `resume` on a real API server: a node, an object, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from tests.support.hubs.hub import config_map
from tests.support.kube import written_by_hand
from tests.support.kube.cluster import Cluster

from fairlead_cli.main import build


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Cluster]:
    """One node, one ConfigMap."""
    written_by_hand.install(cluster)
    written_by_hand.edge_node(cluster, "act-1")
    cluster.apply(config_map("prices", "act-test", v="1"))
    yield cluster
    written_by_hand.remove(cluster)


def run(cluster: Cluster, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(build(), [words[0], "--kubeconfig", str(cluster.kubeconfig), *words[1:]])
    return done.exit_code, done.output.strip()


def test_a_node(installed: Cluster) -> None:
    """Paused, paused for another reason, resumed; saying it twice does no harm."""
    said = [
        run(installed, "pause", "act-1", "--reason", "disk swap\non Tuesday"),
        run(installed, "pause", "act-1", "--reason", "stock taking"),
    ]
    assert written_by_hand.instructions(installed, "enode", "act-1") == {"fairlead.dev/paused": "stock taking"}
    said += [run(installed, "resume", "act-1"), run(installed, "resume", "act-1")]
    assert written_by_hand.instructions(installed, "enode", "act-1") == {}
    assert said == [
        (0, "node/act-1 paused: disk swap on Tuesday"),
        (0, "node/act-1 paused: stock taking (was paused: disk swap on Tuesday)"),
        (0, "node/act-1 resumed; it was paused: stock taking"),
        (0, "node/act-1 is not paused"),
    ]


def test_an_object(installed: Cluster) -> None:
    assert run(installed, "pause", "cm/prices", "-n", "act-test", "--reason", "a check") == (
        0,
        "configmap/prices paused: a check",
    )
    found = written_by_hand.instructions(installed, "configmap", "prices", "act-test")
    assert found == {"fairlead.dev/paused": "a check"}
    assert run(installed, "resume", "configmaps/prices", "-n", "act-test") == (
        0,
        "configmap/prices resumed; it was paused: a check",
    )


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("act-9", "--reason", "x"), 1, "Error: there is no EdgeNode act-9; fairlead status lists them"),
        (("configmap/none", "--reason", "x"), 1, "Error: there is no ConfigMap none in namespace default"),
        (
            ("widget/a", "--reason", "x"),
            1,
            "Error: no SyncRule delivers the kind widget; delivered kinds: ConfigMap, EdgeRou",
        ),
        (("configmap/", "--reason", "x"), 2, "must be KIND/NAME, for example configmap/prices"),
        (("act-1", "--reason", " "), 2, "--reason: must have 1 to 256 characters"),
        (("act-1",), 2, "Missing option '--reason'"),
    ],
)
def test_what_is_refused(installed: Cluster, words: tuple[str, ...], code: int, text: str) -> None:
    found, said = run(installed, "pause", *words)
    assert found == code and text in said
    assert written_by_hand.instructions(installed, "enode", "act-1") == {}
