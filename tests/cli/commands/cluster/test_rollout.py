"""`fairlead rollout`: it waits until every node has the newest, or says which will not."""

from __future__ import annotations

import json
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.support.hubs.hub import config_map
from tests.support.kube.cluster import Cluster

from fairlead_cli.commands.cluster import rollout as command
from fairlead_cli.main import build
from fairlead_hub.rollout import NodeProgress, Rollout


def run(cluster: Cluster, *words: str) -> Result:
    return CliRunner().invoke(build(), ["rollout", "--kubeconfig", str(cluster.kubeconfig), "-n", "cli-test", *words])


def test_a_real_change_is_waited_for(cluster: Cluster, hub_http: str) -> None:
    """edge-near has it within moments; edge-far never connected, so it is waited for unless one says otherwise."""
    cluster.apply(config_map("a", "cli-test", v="again"))
    done = run(cluster, "cm/a", "--connected", "--timeout", "2m")
    assert done.exit_code == 0, done.output
    assert "is held by 1 of 2 nodes; 1 are away and will get it when they return" in done.stdout
    done = run(cluster, "status", "configmap/a", "--timeout", "1s")
    assert done.exit_code == 1 and "1 of 2 nodes do not have it: away: edge-far" in done.output


def test_nodes_are_listed_without_waiting(cluster: Cluster, hub_http: str) -> None:
    done = run(cluster, "cm/b", "--no-watch")
    assert done.exit_code == 1 and done.stdout.splitlines()[0].split() == ["NODE", "STATE", "HELD", "REASON"]
    done = run(cluster, "cm/b", "-o", "json")
    assert {row["node"]: row["state"] for row in json.loads(done.stdout)["items"]} == {
        "edge-near": "held",
        "edge-far": "away",
    }
    done = run(cluster, "cm/b", "--connected", "-o", "name")
    assert (done.exit_code, sorted(done.stdout.split())) == (
        0,
        ["edgenode.fairlead.dev/edge-far", "edgenode.fairlead.dev/edge-near"],
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["cm/missing"], 1, "there is no ConfigMap missing"),
        (["secret/a"], 1, "no SyncRule names the kind secret"),
        (["prices"], 2, "must be KIND/NAME"),
        (["undo", "cm/a"], 2, "only status is supported"),
        (["cm/a", "--timeout", "soon"], 2, "is not a duration"),
    ],
)
def test_wrong_questions(cluster: Cluster, hub_http: str, words: list[str], code: int, said: str) -> None:
    done = run(cluster, *words)
    assert done.exit_code == code and said in done.output, done.output


def found(*rows: tuple[str, str]) -> Rollout:
    return Rollout(
        key="k",
        version="7",
        digest="d",
        rows=tuple(NodeProgress(node=n, state=s, reason="why") for n, s in rows),  # type: ignore[arg-type]
    )


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def waited(*answers: Any, connected: bool = False, seconds: float | None = None) -> list[str]:
    """The lines said while these are what the cluster answers, one after the other."""
    left = list(answers)

    def ask() -> Rollout:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Rollout)
        return answer

    @click.command()
    def wait() -> None:
        command._wait("cm/a", ask, connected, seconds)

    done = CliRunner().invoke(wait)
    assert not left
    return [*done.output.splitlines(), f"exit {done.exit_code}"]


def test_a_line_whenever_something_changed(at_once: None) -> None:
    first, half = found(("n1", "pending"), ("n2", "pending")), found(("n1", "held"), ("n2", "pending"))
    assert waited(first, first, half, half, found(("n1", "held"), ("n2", "held"))) == [
        "waiting for cm/a version 7: 0 of 2 nodes hold it; pending: n1, n2",
        "waiting for cm/a version 7: 1 of 2 nodes hold it; pending: n2",
        "cm/a version 7 is held by 2 of 2 nodes",
        "exit 0",
    ]


def test_it_ends_where_waiting_does_not_help(at_once: None) -> None:
    lines = waited(found(("n1", "pending"), ("n2", "parked")), found(("n1", "held"), ("n2", "parked")))
    assert lines[-2:] == ["Error: cm/a is parked at n2: why; fairlead resync n2", "exit 1"]


def test_a_cluster_that_is_away_for_a_while_is_no_answer(at_once: None) -> None:
    away, done = click.ClickException("no route"), found(("n1", "held"))
    assert waited(found(("n1", "pending")), away, away, done)[1:] == [
        "no route; trying again",
        "cm/a version 7 is held by 1 of 1 nodes",
        "exit 0",
    ]
    assert waited(away)[-1] == "exit 1"
    assert waited(found(("n1", "pending")), command._Nothing("there is no ConfigMap a"))[-2:] == [
        "Error: there is no ConfigMap a",
        "exit 1",
    ]


def test_many_nodes_are_not_all_named(at_once: None) -> None:
    rows = [(f"n{number}", "pending") for number in range(9)]
    assert "pending: n0, n1, n2, n3, n4 and 4 more" in waited(found(*rows), found(*((n, "held") for n, _ in rows)))[0]


def test_a_node_that_is_away_is_not_waited_for_to_let_go(at_once: None) -> None:
    """It lets go when it is back; without --connected it is waited for, and is none of those that should have it."""
    gone = msgspec.structs.replace(found(("n9", "removing")).rows[0], away=True)
    one = msgspec.structs.replace(found(("n1", "held")), rows=(*found(("n1", "held")).rows, gone))
    assert waited(one, connected=True) == ["cm/a version 7 is held by 1 of 1 nodes", "exit 0"]
    assert waited(one, seconds=0.0)[-2:] == ["Error: after 0 s 0 of 1 nodes do not have it: removing: n9", "exit 1"]


def test_what_cannot_be_read_is_no_success(at_once: None) -> None:
    doubted = [
        msgspec.structs.replace(found(*rows), doubts=("SyncRule r cannot be read: why",))
        for rows in ((("n1", "pending"),), (("n1", "held"),), ())
    ]
    said = "Error: it is unknown which nodes should hold cm/a: SyncRule r cannot be read: why"
    assert waited(*doubted[:2])[-2:] == [said, "exit 1"]
    assert waited(doubted[2]) == [said, "exit 1"]
