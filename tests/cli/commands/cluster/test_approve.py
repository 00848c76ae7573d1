"""`fairlead approve` on a real API server: what would be deleted, the question, and the approval."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from tests.support.kube import written_by_hand
from tests.support.kube.cluster import Cluster

from fairlead_cli.commands.cluster import approve
from fairlead_cli.main import build

GUARD = {"id": "3f0c91aa", "count": 2, "since": "2026-11-22T10:00:00Z"}


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Cluster]:
    """Two deletions were stopped at act-1; act-2 has its own record, and none was stopped there."""
    written_by_hand.install(cluster)
    yield cluster
    written_by_hand.remove(cluster)


@pytest.fixture
def stopped(installed: Cluster) -> Cluster:
    """As it is before each test."""
    written_by_hand.edge_node(installed, "act-1", deletionGuard=GUARD)
    written_by_hand.edge_node(installed, "act-2", deletionGuard=None)
    installed.kubectl("annotate", "enode", "act-1", "fairlead.dev/approve-deletions-")
    for name in ("b", "a"):
        written_by_hand.object_sync(
            installed, "act-1", name, state="Deleting", reason="DeletionGuard", objectResourceVersion="7"
        )
    written_by_hand.object_sync(installed, "act-1", "c", state="Synced", objectResourceVersion="8")
    return installed


def run(cluster: Cluster, *words: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(build(), ["approve", "--kubeconfig", str(cluster.kubeconfig), *words], input=answer)


def test_with_yes(stopped: Cluster) -> None:
    done = run(stopped, "act-1", "--yes")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "OBJECT        NAMESPACE   VERSION",
        "configmap/a   act-test    7",
        "configmap/b   act-test    7",
    ]
    assert done.stderr.splitlines() == [
        "node/act-1: 2 deletions stopped at 2026-11-22T10:00:00Z (guard 3f0c91aa)",
        "node/act-1: approved; the hub deletes them now",
    ]
    found = written_by_hand.instructions(stopped, "enode", "act-1")
    assert found == {"fairlead.dev/approve-deletions": "3f0c91aa"}


def test_without_a_terminal(stopped: Cluster) -> None:
    """It shows the list, and does nothing that it was not told to do."""
    done = run(stopped, "act-1", "-o", "json")
    assert done.exit_code == 2 and "run it again with --yes" in done.stderr
    assert [each["object"] for each in json.loads(done.stdout)["items"]] == ["configmap/a", "configmap/b"]
    assert written_by_hand.instructions(stopped, "enode", "act-1") == {}


@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("y\n", 0)])
def test_at_a_terminal(stopped: Cluster, monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    monkeypatch.setattr(approve, "_is_asked", lambda: True)
    done = run(stopped, "act-1", answer=answer)
    assert done.exit_code == code and "Delete these at act-1?" in done.stderr
    assert bool(written_by_hand.instructions(stopped, "enode", "act-1")) is (code == 0)


def test_nothing_is_stopped(stopped: Cluster) -> None:
    done = run(stopped, "act-2")
    assert (done.exit_code, done.output) == (0, "node/act-2: nothing to approve\n")
    written_by_hand.edge_node(stopped, "act-1", deletionGuard=GUARD | {"approved": True})
    done = run(stopped, "act-1", "--yes")
    assert (done.exit_code, done.output) == (0, "node/act-1: 2 deletions approved already (3f0c91aa)\n")
