"""`fairlead status`: nodes, lag, parked; from the hub and from the API objects alone."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from tests.support.cluster import Cluster

from fairlead_cli.main import build


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(build(), ["status", *arguments])
    return done.exit_code, done.output


def test_nodes_from_the_hub(hub_http: str) -> None:
    """A table for people: who is connected, what is wanted and held."""
    code, text = run("--hub", hub_http)
    assert code == 0
    lines = {line.split()[0]: line.split() for line in text.splitlines()}
    assert lines["edge-near"][1] == "yes" and lines["edge-near"][2] == lines["edge-near"][3] != "0"
    assert lines["edge-far"][1] == "no" and lines["edge-far"][-1] == "never"


def test_nodes_from_the_api_objects(cluster: Cluster, hub_http: str) -> None:
    """Without a hub to ask, EdgeNodes and records tell the same."""
    code, text = run("--kubeconfig", str(cluster.kubeconfig), "-o", "json")
    assert code == 0
    rows = {row["node"]: row for row in json.loads(text)["nodes"]}
    assert rows["edge-near"]["connected"] and rows["edge-near"]["held"] == rows["edge-near"]["wanted"] > 0
    assert not rows["edge-far"]["connected"]


def test_one_node(hub_http: str, hub_config: Path) -> None:
    """In detail, found through the hub's own settings; a node nobody knows is exit 1 with a sentence."""
    code, text = run("edge-near", "--config", str(hub_config), "-o", "json")
    assert code == 0 and json.loads(text)["grantedTopics"] == ["default/telemetry"]
    code, text = run("nobody", "--hub", hub_http)
    assert (code, text.strip()) == (1, "Error: there is no edge Node nobody")
