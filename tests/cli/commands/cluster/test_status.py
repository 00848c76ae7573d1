"""`fairlead status`: nodes, lag, parked; from the hub and from the API objects alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.kube import api_in_memory
from tests.support.kube.api_in_memory import ApiInMemory
from tests.support.kube.cluster import Cluster

from fairlead_cli.commands.cluster import status
from fairlead_cli.main import build
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer
from fairlead_wire.objects import api_group

KEYWORDS = dict(printer.changed_rows.__kwdefaults__ or {})


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(build(), ["status", *arguments])
    return done.exit_code, done.output


@pytest.mark.verify
def test_nodes_from_the_hub(hub_http: str) -> None:
    code, text = run("--hub", hub_http)
    assert code == 0
    lines = {line.split()[0]: line.split() for line in text.splitlines()}
    held, wanted = lines["edge-near"][2].split("/")
    assert lines["edge-near"][1] == "Connected" and held == wanted != "0"
    assert lines["edge-far"][1] == "Unknown" and "never" in lines["edge-far"]


def test_nodes_from_the_api_objects(cluster: Cluster, hub_http: str) -> None:
    code, text = run("--kubeconfig", str(cluster.kubeconfig), "-o", "json")
    assert code == 0
    rows = {row["node"]: row for row in json.loads(text)["nodes"]}
    assert rows["edge-near"]["connected"] and rows["edge-near"]["held"] == rows["edge-near"]["wanted"] > 0
    assert not rows["edge-far"]["connected"]


def test_one_node(hub_http: str, hub_config: Path) -> None:
    """In detail, found through the hub's own settings; an unknown node is exit 1 with a sentence."""
    code, text = run("edge-near", "--config", str(hub_config), "-o", "json")
    assert code == 0 and json.loads(text)["grantedTopics"] == ["default/telemetry"]
    code, text = run("edge-9", "--hub", hub_http)
    assert (code, text.strip()) == (1, f"Error: {api_group.no_edge_node('edge-9')}")


def test_what_the_hub_does_not_see_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Since when, and why; and what the API server does not let it write."""
    row = {"node": "edge-1", "connected": True, "wanted": 1, "held": 1, "pending": 0, "parked": 0, "lastContact": ""}
    stale = {"collection": "api/v1/nodes", "since": "2026-11-22T10:00:00Z", "seconds": 9.0, "reason": "answered 503"}
    refused = {"count": 3, "since": "2026-11-22T10:01:00Z", "reason": "forbidden"}
    status._show_all({"nodes": [row], "stale": [stale], "recordsRefused": refused}, Printer())
    said = capsys.readouterr().out
    assert "stale since 2026-11-22T10:00:00Z: api/v1/nodes: answered 503" in said
    assert "3 records refused since 2026-11-22T10:01:00Z: forbidden" in said


def test_what_cannot_be_judged_is_not_called_unwanted(capsys: pytest.CaptureFixture[str]) -> None:
    """A kind the hub may not list: its objects stay, and nobody is told to delete them."""
    row = {"node": "edge-1", "connected": True, "wanted": 1, "held": 4, "pending": 0, "parked": 0, "lastContact": ""}
    why = "Secret cannot be listed: 403"
    status._show_all({"nodes": [{**row, "kept": 3, "keptUnknown": 2, "keptUnknownReason": why}]}, Printer())
    said = capsys.readouterr().out
    assert f"edge-1: it is unknown whether 2 objects are still wanted ({why}); they are kept, do not" in said
    assert "edge-1: 1 kept although no longer wanted" in said


def test_what_has_no_namespace_has_one_slash(capsys: pytest.CaptureFixture[str]) -> None:
    """As kubectl prints it; the document keeps the key."""
    row = {"node": "edge-1", "connected": True, "wanted": 1, "held": 1, "pending": 0, "parked": 0, "lastContact": ""}
    key = "edgeroutes.fairlead.dev//mine"
    parked = {"key": key, "code": "c", "reason": "r", "retries": 1}
    more = {"pendingObjects": [{"key": key, "step": "queued"}], "parkedObjects": [parked]}
    status._show_one({**row, **more, "keptObjects": [{"key": key, "reason": "r"}]}, Printer())
    said = capsys.readouterr().out
    assert "//" not in said and said.count("edgeroutes.fairlead.dev/mine:") == 3


def test_a_deleted_node_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its EdgeNode remains for its certificates; both commands show it, and `status NODE` says what can be done."""
    gone = {"type": "Connected", "status": "False", "reason": "NodeDeleted", "message": "…"}
    said = {"lastContactTime": "2026-11-20T00:00:00Z", "identity": {"expires": "2027-02-26T12:00:00Z"}}
    edge = {"metadata": {"name": "edge-3"}, "status": {**said, "conditions": [gone]}}
    never = {"metadata": {"name": "edge-4"}, "status": {}}
    ApiInMemory({api_in_memory.EDGE_NODES: [edge, never]}).is_asked(monkeypatch)
    for command in (["status"], ["status", "edge-3"], ["nodes"], ["nodes", "edge-3"]):
        done = CliRunner().invoke(build(), command)
        assert done.exit_code == 0 and "NodeDeleted" in done.stdout and "edge-4" not in done.stdout
        remedy = "remains until 2027-02-26T12:00:00Z. Recreate the Node and then run fairlead node approve edge-3, or"
        assert (remedy in done.stdout) == (command[0] == "status")
    assert CliRunner().invoke(build(), ["nodes", "-l", "zone=eu"]).stdout == ""


def test_a_guard_is_said_with_the_way_back_first(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"node": "edge-2", "connected": True, "wanted": 1, "held": 1, "pending": 0, "parked": 0, "lastContact": ""}
    status._show_all({"nodes": [{**row, "deletionGuard": {"id": "a", "count": 13, "approved": False}}]}, Printer())
    said = capsys.readouterr().out
    assert "edge-2: deletion guard: 13 deletions stopped: a SyncRule, a label or a namespace was probably" in said
    assert said.index("restore it") < said.index("fairlead approve edge-2")


RULE = {"metadata": {"name": "r"}, "spec": {"resources": []}, "status": {"unlistedKinds": ["ConfigMaps: not served"]}}
TROUBLE = "SyncRule r: ConfigMaps: not served"


def test_followed_it_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: that no hub holds the Lease, and which rules are in trouble."""
    api = ApiInMemory({
        api_in_memory.NODES: [{"metadata": {"name": "edge-1"}}], f"{api_in_memory.ROOT}/syncrules": [RULE],
    })  # fmt: skip
    api.is_asked(monkeypatch)
    asked = iter(range(3))

    def pause(_: float) -> None:
        if next(asked) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(printer.changed_rows, "__kwdefaults__", {**KEYWORDS, "pause": pause})
    done = CliRunner().invoke(build(), ["status", "--watch"])
    assert done.exit_code == 0, done.output
    assert done.stderr == "no hub holds a Lease: what follows is the last known state\n"
    assert done.stdout.count(TROUBLE) == 1 and done.stdout.startswith("NAME")
    assert CliRunner().invoke(build(), ["status"]).stderr == done.stderr
    assert CliRunner().invoke(build(), ["status"]).stdout.endswith(f"{TROUBLE}\n")
