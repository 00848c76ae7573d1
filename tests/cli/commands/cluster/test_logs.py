"""`fairlead logs`: of which Pods, in which form; that a kubelet really gives them is told in e2e."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.kube.cluster import Cluster

from fairlead_cli.commands.cluster import logs
from fairlead_cli.commands.cluster.logs import LogLine, LogSource
from fairlead_cli.main import build
from fairlead_hub.io.cluster import api_error


def run(*words: str) -> Result:
    return CliRunner().invoke(build(), ["logs", *words])


def line(second: int, **said: Any) -> str:
    return json.dumps({"ts": f"2026-11-22T10:00:0{second}.000000Z", "level": "info", "room": "hub", **said})


@pytest.fixture
def two_pods(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """hub-0 and edge-a, whose kubelet does not answer when `away` is set; `asked` is with what."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    seen: dict[str, Any] = {"away": (), "asked": []}

    async def sources(kube: object, *asked: object) -> list[LogSource]:
        seen["asked"].append(asked)
        return [LogSource("f", "hub-0", "hub"), LogSource("f", "edge-a", "edge")]

    async def read(kube: object, source: LogSource, query: dict[str, str]) -> list[LogLine]:
        seen["asked"].append(query)
        if source.pod in seen["away"]:
            raise api_error.ApiRefused(500, "no kubelet")
        said = {
            "hub-0": [
                (1, line(1, event="session_opened", node="edge-1")),
                (4, line(4, event="parked", level="warning")),
            ],
            "edge-a": [(2, line(2, event="started")), (3, "Traceback (most recent call last):")],
        }
        return [LogLine(f"2026-11-22T10:00:0{at}.000000000Z", source.pod, text) for at, text in said[source.pod]]

    monkeypatch.setattr(logs, "sources", sources)
    monkeypatch.setattr(logs, "read", read)
    return seen


def test_all_pods_in_one_order(two_pods: dict[str, Any]) -> None:
    done = run()
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "10:00:01.000  info      hub-0  session_opened node=edge-1",
        "10:00:02.000  info      edge-a  started",
        "10:00:03.000            edge-a  Traceback (most recent call last):",
        "10:00:04.000  warning   hub-0  parked",
    ]
    assert two_pods["asked"][0] == (None, None, None) and two_pods["asked"][1] == {"tailLines": "100"}
    assert "\x1b[33m" in run("--color", "always").stdout


def test_only_what_was_asked_for(two_pods: dict[str, Any]) -> None:
    """By level, event, node; a node's agent by its Pod."""
    assert [each.split()[-1] for each in run("--level", "warning").stdout.splitlines()] == ["parked"]
    assert [each.split()[3] for each in run("--event", "started", "--event", "parked").stdout.splitlines()] == [
        "started",
        "parked",
    ]
    assert len(run("hub", "--node", "edge-1").stdout.splitlines()) == 1
    assert len(run("edge", "--node", "edge-1", "-n", "f").stdout.splitlines()) == 4
    assert ("f", "edge", "edge-1") in two_pods["asked"]
    assert run("--since", "2h", "--previous").exit_code == 0
    assert two_pods["asked"][-1] == {"sinceSeconds": "7200", "previous": "true"}


def test_as_they_are(two_pods: dict[str, Any]) -> None:
    found = [json.loads(each) for each in run("-o", "json").stdout.splitlines()]
    assert found[0] == json.loads(line(1, event="session_opened", node="edge-1"))
    assert found[2] == {
        "ts": "2026-11-22T10:00:03.000000000Z", "pod": "edge-a", "text": "Traceback (most recent call last):",
    }  # fmt: skip


def test_one_that_cannot_be_read_holds_up_no_other(two_pods: dict[str, Any]) -> None:
    """When none can, it is said."""
    two_pods["away"] = ("hub-0",)
    assert len(run().stdout.splitlines()) == 2
    two_pods["away"] = ("hub-0", "edge-a")
    done = run()
    assert done.exit_code == 1 and "no kubelet" in done.output


def test_of_a_cluster_without_pods(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    done = run("hub", "-n", "kube-system")
    assert done.exit_code == 1 and "no Pod of hub of Fairlead is in namespace kube-system" in done.output
    done = run("-f", "--previous")
    assert done.exit_code == 2 and "nothing to follow" in done.output
