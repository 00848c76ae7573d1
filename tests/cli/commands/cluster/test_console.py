"""`fairlead console`: addresses, tunnels, and what is said where none can be made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.kube.cluster import Cluster

from fairlead_cli.main import build


def run(*words: str) -> Result:
    return CliRunner().invoke(build(), ["console", *words])


def test_the_address_of_a_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printed; opened unless that is not wanted; said where there is no browser."""
    opened: list[str] = []

    def open_one(url: str) -> bool:
        opened.append(url)
        return len(opened) < 2

    monkeypatch.setattr("webbrowser.open", open_one)
    hub = ("--hub", "http://127.0.0.1:10002/")
    for words in (("--url",), ("--no-open",), (), ()):
        done = run(*hub, *words)
        assert done.exit_code == 0 and done.stdout == "http://127.0.0.1:10002/console/\n"
    assert opened == ["http://127.0.0.1:10002/console/"] * 2
    assert done.stderr == "no browser could be started: open this address in one\n"


def test_wrong_use() -> None:
    assert run("--url").exit_code == 2 and run("--hub", "nonsense").exit_code == 2


def test_without_kubectl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    done = run()
    assert done.exit_code == 1 and "kubectl is not on the PATH" in done.output


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A stand-in: no kubelet runs in tests, so that the real one cannot make a tunnel."""
    program = tmp_path / "kubectl"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\necho "Forwarding from 127.0.0.1:4711 -> 10002"\n')
    program.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda _: str(program))
    yield tmp_path / "words"


def test_a_tunnel_to_the_hub_that_is_ready(cluster: Cluster, namespace: str, kubectl: Path) -> None:
    words = ("--kubeconfig", str(cluster.kubeconfig), "-n", namespace, "--no-open")
    assert f"there is no hub Pod in namespace {namespace}" in run(*words).output
    labels = {"app.kubernetes.io/part-of": "fairlead", "app.kubernetes.io/component": "hub"}
    pod = {"metadata": {"name": "hub-0", "namespace": namespace, "labels": labels}}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", **pod, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    assert f"no hub is ready; {namespace}/hub-0 is Pending" in run(*words).output
    status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    place = ("-n", namespace, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    cluster.kubectl("patch", "pod", "hub-0", *place)
    done = run(*words)
    assert done.exit_code == 0 and done.stdout == "http://127.0.0.1:4711/console/\n", done.output
    asked = kubectl.read_text().split()
    assert asked[1:] == ["-n", namespace, "port-forward", "hub-0", ":10002"]
