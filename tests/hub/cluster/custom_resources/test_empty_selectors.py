"""`{}` selects all, also where server-side apply puts it in the place of another: a real API server and kubectl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.hubs.hub import CRDS
from tests.support.kube.cluster import Cluster

from fairlead_hub.cluster import selector, sync_rule

LABELS: dict[str, Any] = {"matchLabels": {"role": "shop"}}
EXPRESSIONS: dict[str, Any] = {"matchExpressions": [{"key": "role", "operator": "In", "values": ["shop"]}]}
EMPTY: tuple[Any, ...] = ({}, {"matchLabels": {}}, {"matchExpressions": []}, None)


@pytest.fixture
def kube(cluster: Cluster) -> Iterator[Cluster]:
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    yield cluster
    cluster.kubectl("delete", "syncrules,edgeroutes", "--all", "--wait=true")


def rule(given: Any) -> dict[str, Any]:
    """With this selector wherever a SyncRule takes one."""
    resources = [{"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": given}]
    return {"apiVersion": "fairlead.dev/v1alpha1", "kind": "SyncRule", "metadata": {"name": "empty"},
            "spec": {"nodeSelector": given, "resources": resources}}  # fmt: skip


def routes(given: Any) -> dict[str, Any]:
    spec = {"nodeSelector": given, "schemaVersion": "1.1", "routes": {"r": {"route": "FROM /* INTO $upstream"}},
            "storeAndForwardConfiguration": {"timeToLiveSecs": 60}}  # fmt: skip
    return {"apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeRoutes", "metadata": {"name": "empty"}, "spec": spec}


def applied(kube: Cluster, body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        kube.kubectl("apply", "--server-side", "-f", "-", "-o", "json", stdin=json.dumps(body))
    )
    return found


@pytest.mark.parametrize("before", [LABELS, EXPRESSIONS], ids=["labels", "expressions"])
def test_an_empty_selector_replaces_another_and_selects_all(kube: Cluster, before: dict[str, Any]) -> None:
    """However it is spelled, and the hub reads what is stored then."""
    for empty in EMPTY:
        assert not sync_rule.rule(applied(kube, rule(before))).nodes.matches({})
        read = sync_rule.rule(applied(kube, rule(empty)))
        assert read.nodes == read.entries[0].labels == selector.EVERYTHING, empty
        assert not sync_rule.routes(applied(kube, routes(before))).nodes.matches({})
        assert sync_rule.routes(applied(kube, routes(empty))).nodes == selector.EVERYTHING, empty
