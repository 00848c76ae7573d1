"""Names of the cluster for the shell."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from tests.support.hubs.hub import config_map
from tests.support.kube.cluster import Cluster

from fairlead_cli import completing
from fairlead_cli.cluster import names

PARAMETER = click.Option(["-x"])


def kubeconfig(folder: Path) -> Path:
    """Two contexts, and no server behind them."""
    path = folder / "kubeconfig"
    path.write_text(
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n"
        "contexts: [{name: one, context: {cluster: c, user: u}}, {name: two, context: {cluster: c, user: u}}]\n"
        "current-context: one\n"
    )
    return path


def context(file: Path, **params: object) -> click.Context:
    made = click.Context(click.Command("x"))
    made.params = {"kubeconfig": str(file), **params}
    return made


def test_contexts_need_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(completing.VARIABLE, "100")
    found = names.contexts(context(kubeconfig(tmp_path)), PARAMETER, "t")
    assert [item.value for item in found] == ["two"]


def test_namespaces(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that begin like what was typed; of a cluster that is not there none."""
    monkeypatch.setenv(completing.VARIABLE, "100")
    cluster.apply(config_map("a", namespace, v="1"))
    found = names.namespaces(context(cluster.kubeconfig), PARAMETER, namespace[:-1])
    assert [item.value for item in found] == [namespace]


def test_a_cluster_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(completing.VARIABLE, "100")
    assert names.nodes(context(kubeconfig(tmp_path)), PARAMETER, "") == []
    assert names.objects(context(kubeconfig(tmp_path)), PARAMETER, "") == []
    assert names.edge_routes(context(kubeconfig(tmp_path)), PARAMETER, "") == []
