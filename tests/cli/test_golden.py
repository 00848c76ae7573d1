"""Every command of the plugin that reads, on the real API server, with its output kept beside: golden/NAME.txt."""

from __future__ import annotations

import asyncio
import datetime
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.support import golden
from tests.support.hubs.hub import CRDS
from tests.support.kube.cluster import Cluster

from fairlead_cli import completing
from fairlead_cli.cluster import target
from fairlead_cli.main import build
from fairlead_cli.text import quantities
from fairlead_hub.io.cluster import api_access, kube
from fairlead_wire.objects import api_group

FOLDER = Path(__file__).parent / "golden"
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "use-the-kubectl-plugin.md"
NOW = datetime.datetime(2020, 1, 1, 12, 0, tzinfo=datetime.UTC)
COMMANDS = {
    "nodes": "nodes",
    "nodes-wide": "nodes -o wide",
    "nodes-selected": "nodes -l zone=eu --no-headers",
    "nodes-name": "nodes -o name",
    "nodes-one-json": "nodes edge-2 -o json",
    "nodes-jsonpath": "nodes -o jsonpath='{.items[?(@.status.connected==false)].metadata.name}'",
    "nodes-colour": "nodes --color always",
    "nodes-missing": "nodes edge-9",
    "nodes-none": "nodes -l zone=mars",
    "objects-node": "objects edge-1",
    "objects-node-wide": "objects edge-1 -o wide",
    "objects-namespace": "objects -n shop",
    "objects-parked": "objects -A --state Parked",
    "objects-selected": "objects -A -l fairlead.dev/kind=EdgeRoutes -o yaml",
    "objects-name": "objects -A -o name",
    "objects-none": "objects",
    "objects-no-node": "objects edge-9",
    "status": "status",
    "status-wide": "status -o wide -l zone=eu",
    "status-one": "status edge-1",
    "status-yaml": "status edge-2 -o yaml",
    "status-name": "status -o name",
    "explain": "explain configmap/prices -n shop --node edge-2",
    "rollout": "rollout configmap/prices -n shop --no-watch",
    "explain-missing": "explain configmap/pricse -n shop --node edge-1",
    "explain-jsonpath": "explain configmap/prices -n shop --node edge-2 -o jsonpath='{.code}'",
    "routes": "routes",
    "routes-by-node": "routes --by-node -o wide",
    "routes-one-node": "routes list telemetry --node edge-1 -o json",
    "routes-missing": "routes list temeletry",
    "events": "events",
    "events-all": "events -A -o wide",
    "events-node": "events edge-1",
    "events-warnings": "events -A --type Warning -o name",
    "top-nodes": "top",
    "top-queues": "top queues",
    "tokens": "token list",
    "tokens-wide": "token list -o wide",
    "tokens-name": "token list -o name",
    "token-missing": "token revoke zzzzzzzzzz",
    "token-two-nodes": "token create --node edge-1 --replace edge-2",
    "context-missing": "nodes --context mars",
    "form-unknown": "nodes -o table",
    "jsonpath-mistake": "nodes -o jsonpath='{.items'",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One of our own: lists show everything there is."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        running.apply(CRDS)
        running.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        documents = list(yaml.safe_load_all((FOLDER / "cluster.yaml").read_text()))
        said = [(each, each.pop("status", None)) for each in documents]
        running.apply(documents)
        asyncio.run(_write_statuses(running, said))
        yield running


async def _write_statuses(cluster: Cluster, said: list[tuple[dict[str, Any], Any]]) -> None:
    """As a hub would: each by a request of its own."""
    client = kube.Kube(api_access.load(str(cluster.kubeconfig)))
    try:
        for document, status in said:
            if status is not None:
                metadata, kind = document["metadata"], document["kind"].lower().removesuffix("s")
                place = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
                path = f"{api_group.ROOT}/{place}{kind}s/{metadata['name']}/status"
                await client.request("PATCH", path, {"status": status}, content_type=kube.MERGE_PATCH)
    finally:
        await client.close()


@pytest.mark.parametrize("name", COMMANDS)
def test_it_prints_what_it_printed(name: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output, standard error and exit code, letter for letter."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    monkeypatch.setattr(quantities, "utc", lambda: NOW)
    monkeypatch.setattr(target, "server_time", lambda _: NOW)
    monkeypatch.setattr(target, "clock_note", lambda _: "")
    done = CliRunner().invoke(build(), shlex.split(COMMANDS[name]), prog_name="kubectl fairlead")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    text = golden.transcript(COMMANDS[name], done.exit_code, done.stdout, done.stderr)
    golden.check(FOLDER / f"{name}.txt", text.replace(str(cluster.kubeconfig), "KUBECONFIG"))


def test_no_golden_text_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(COMMANDS)


def test_the_page_shows_what_is_printed() -> None:
    """docs/howto/use-the-kubectl-plugin.md holds golden texts, letter for letter."""
    shown = re.findall(r"^```text\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    texts = {path.read_text() for path in FOLDER.glob("*.txt")}
    assert len(shown) > 5 and not [text for text in shown if text not in texts], (
        "take over the files of tests/cli/golden"
    )


@pytest.mark.verify
def test_kubectl_runs_them(cluster: Cluster, tmp_path: Path) -> None:
    """The same texts from the real kubectl, which finds the plugin on PATH; ages are those of now."""
    environment = _environment(cluster, tmp_path)
    for name, command in COMMANDS.items():
        done = subprocess.run(
            [cluster.assets / "kubectl", "fairlead", *shlex.split(command)],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        text = golden.transcript(command, done.returncode, done.stdout, done.stderr)
        text = text.replace(str(cluster.kubeconfig), "KUBECONFIG")
        assert _without_ages(text) == _without_ages((FOLDER / f"{name}.txt").read_text())


@pytest.mark.verify
def test_kubectl_completes(cluster: Cluster, tmp_path: Path) -> None:
    """Commands, options and names of the cluster, by kubectl's own completion."""
    environment = {**_environment(cluster, tmp_path), completing.VARIABLE: "100"}

    def completed(*words: str) -> list[str]:
        command = [str(cluster.assets / "kubectl"), "__complete", "fairlead", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    assert completed("no")[:2] == ["node", "nodes"] and completed("no")[-1] == ":4"
    assert completed("nodes", "--no-h")[0] == "--no-headers"
    assert completed("objects", "edge-") == ["edge-1", "edge-2", "edge-3", ":4"]
    assert completed("routes", "list", "") == ["telemetry", ":4"]
    assert completed("explain", "-n", "shop", "conf") == ["configmap/prices", ":4"]
    assert completed("nodes", "--context", "") == ["fairlead", ":4"]
    environment["KUBECONFIG"] = "/nonexistent"
    assert completed("nodes", "") == [":4"]


def _environment(cluster: Cluster, folder: Path) -> dict[str, str]:
    """Where kubectl finds the plugin and what completes it, as a package installs them."""
    for program, module in (("kubectl-fairlead", "main"), ("kubectl_complete-fairlead", "kubectl_completion")):
        path = folder / program
        path.write_text(f"#!{sys.executable}\nfrom fairlead_cli.{module} import main\nmain()\n")
        path.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(folder)}


def _without_ages(text: str) -> str:
    """Ages, and the blanks that depend on their length."""
    return re.sub(r" +", " ", re.sub(r"\b\d+[smhdy](\d+[smhd])?\b", "<age>", text))
