"""`fairlead explain`: why is this object at this node, or why not?"""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from tests.support.kube.cluster import Cluster

from fairlead_cli.clients import hub_client
from fairlead_cli.commands.cluster.explain import NO
from fairlead_cli.main import build


def explained(name: str, node: str, *source: str, namespace: str = "cli-test") -> tuple[str, str]:
    done = CliRunner().invoke(build(), ["explain", name, "-n", namespace, "--node", node, "-o", "json", *source])
    found = json.loads(done.output)
    assert done.exit_code == (1 if found["code"] in NO else 0), done.output
    return found["code"], found["answer"]


def test_the_hub_knows(hub_http: str) -> None:
    """Held, not selected, no such object, no such node, away: each has its word. Kinds as kubectl takes them."""
    source = ("--hub", hub_http)
    for kind in ("configmap", "ConfigMap", "cm", "configmaps"):
        assert explained(f"{kind}/a", "edge-near", *source)[0] == "held"
    assert explained("cm/missing", "edge-near", *source)[0] == "no_object"
    assert explained("secret/a", "edge-near", *source)[0] == "not_watched"
    assert explained("cm/a", "edge-9", *source)[0] == "no_node"
    assert explained("cm/a", "edge-near", *source, namespace="default")[1].count("use -n cli-test")
    code, answer = explained("cm/a", "edge-far", *source)
    assert code == "away" and "it should hold this" in answer


def test_the_api_objects_know_most_of_it(cluster: Cluster, hub_http: str) -> None:
    source = ("--kubeconfig", str(cluster.kubeconfig))
    assert explained("cm/a", "edge-near", *source)[0] == "held"
    assert explained("cm/missing", "edge-near", *source)[0] == "no_object"
    assert explained("cm/a", "edge-9", *source)[0] == "no_node"
    assert explained("cm/a", "edge-far", *source)[0] == "no_record"
    assert explained("cm/a", "edge-near", *source, namespace="default")[1].count("use -n cli-test")
    assert explained("secret/a", "edge-near", *source)[0] == "not_watched"


def test_no_is_exit_1(hub_http: str) -> None:
    for name, code in (("cm/a", 0), ("cm/missing", 1), ("secret/a", 1)):
        command = ["explain", name, "-n", "cli-test", "--node", "edge-near", "--hub", hub_http]
        done = CliRunner().invoke(build(), command)
        assert done.exit_code == code, done.output


def test_an_object_needs_kind_and_name() -> None:
    done = CliRunner().invoke(build(), ["explain", "prices", "--node", "edge-1"])
    assert done.exit_code == 2 and "must be KIND/NAME" in done.output


@pytest.mark.parametrize(
    ("typed", "key", "named"),
    [
        ("ConfigMap/a", "configmaps/shop/a", "ConfigMap/shop/a"),
        ("cm/a", "configmaps/shop/a", "cm/shop/a"),
        ("Node/edge-1", "Node//edge-1", "Node/edge-1"),
        ("eroutes/a", "edgeroutes.fairlead.dev//a", "eroutes/a"),
        ("Widget/a", None, "Widget/a"),
    ],
)
def test_an_object_is_named_as_it_was_typed(
    typed: str, key: str | None, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its namespace, if it has one."""
    found = {"node": "edge-1", "code": "held", "answer": "so", **({} if key is None else {"key": key})}
    monkeypatch.setattr(hub_client, "ask", lambda *_, **__: found)
    done = CliRunner().invoke(build(), ["explain", typed, "--node", "edge-1", "--hub", "http://127.0.0.1:1"])
    assert done.output == f"{named} on edge-1: so\n"


@pytest.mark.parametrize(
    ("code", "status"), [("held", 0), ("pending", 0), ("paused", 0), ("undeliverable", 1), ("not_wanted", 1)]
)
def test_what_no_node_can_be_given_is_no(code: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that is too large will not come as things are, whichever side says so."""
    monkeypatch.setattr(hub_client, "ask", lambda *_, **__: {"node": "edge-1", "code": code, "answer": "so"})
    done = CliRunner().invoke(build(), ["explain", "cm/a", "--node", "edge-1", "--hub", "http://127.0.0.1:1"])
    assert done.exit_code == status, done.output
