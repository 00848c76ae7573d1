"""Which nodes should hold an object and which do, from a real API server: by rules, by labels, by Pods that name it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.hub.io.test_offline_report import CONFIG_MAPS, apply, live, recorded
from tests.support.hubs.hub import config_map, edge_node, sync_rule
from tests.support.kube.cluster import Cluster

from fairlead_hub.cluster import sync_rule as sync_rules
from fairlead_hub.io import offline_rollout
from fairlead_hub.io.cluster.kube import Kube


@pytest.fixture
def kube(defined: Cluster) -> Iterator[Cluster]:
    """The cluster with two edge Nodes, one of them in zone a."""
    defined.apply([edge_node("edge-1", zone="a"), edge_node("edge-2")])
    yield defined
    defined.kubectl("delete", "syncrules,edgeroutes,edgenodes,nodes", "--all", "--wait=true")


async def states(client: Kube, namespace: str) -> dict[str, str]:
    found = await offline_rollout.survey(client, "cm", namespace, "a")
    return {row.node: row.state for row in found.rows}


async def test_every_node_that_a_rule_selects(kube: Cluster, client: Kube, namespace: str) -> None:
    """What acknowledged the content counts; one that is not selected any more is named until it has let go."""
    await apply(kube, sync_rule("all", {**CONFIG_MAPS, "namespaces": [namespace]}), config_map("a", namespace, v="1"))
    assert await states(client, namespace) == {"edge-1": "away", "edge-2": "away"}
    now = await live(client, namespace)
    await recorded(client, namespace, uid=now.uid, version=now.version, digest=now.digest)
    assert await states(client, namespace) == {"edge-1": "held", "edge-2": "away"}
    await apply(kube, config_map("a", namespace, v="2"))
    assert await states(client, namespace) == {"edge-1": "away", "edge-2": "away"}
    rule = sync_rule("all", {**CONFIG_MAPS, "namespaces": [namespace]}, nodeSelector={"matchLabels": {"zone": "b"}})
    await apply(kube, rule)
    assert await states(client, namespace) == {"edge-1": "removing"}


async def test_what_pods_name_goes_where_they_are(kube: Cluster, client: Kube, namespace: str) -> None:
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {
            "nodeName": "edge-2",
            "containers": [{"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "a"}}]}],
        },
    }
    rule = sync_rule(
        "all",
        {**CONFIG_MAPS, "namespaces": [namespace], "select": "referenced"},
        {"apiVersion": "v1", "kind": "Pod", "namespaces": [namespace], "select": "bound"},
    )
    await apply(kube, rule, config_map("a", namespace, v="1"), pod)
    assert await states(client, namespace) == {"edge-2": "away"}
    await asyncio.to_thread(kube.kubectl, "delete", "pod", "p", "-n", namespace, "--force", "--grace-period=0")
    assert await states(client, namespace) == {}


async def test_what_is_not_there_is_said(kube: Cluster, client: Kube, namespace: str) -> None:
    with pytest.raises(offline_rollout.NoRollout, match="no SyncRule names the kind cm"):
        await states(client, namespace)
    await apply(kube, sync_rule("all", {**CONFIG_MAPS, "namespaces": [namespace]}))
    with pytest.raises(offline_rollout.NoRollout, match="there is no ConfigMap"):
        await states(client, namespace)


async def test_rules_and_routes_that_cannot_be_read_leave_it_open(
    kube: Cluster, client: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is everywhere is not known then; a rule that has nothing to do with its kind is no matter."""

    def refuse(item: dict[str, Any]) -> Any:
        raise ValueError("its selector makes no sense")

    routes: dict[str, Any] = {
        "apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeRoutes", "metadata": {"name": "r"},
        "spec": {"schemaVersion": "1.1", "routes": {"r": {"route": "FROM /* INTO $upstream"}},
                 "storeAndForwardConfiguration": {}},
    }  # fmt: skip
    rule = sync_rule("all", {**CONFIG_MAPS, "namespaces": [namespace]})
    await apply(kube, rule, routes, config_map("a", namespace, v="1"))
    assert not (await offline_rollout.survey(client, "cm", namespace, "a")).doubts
    readable = sync_rules.rule
    monkeypatch.setattr(
        sync_rules, "rule", lambda item: readable(item) if item["metadata"]["name"] == "all" else refuse(item)
    )
    await apply(kube, sync_rule("pods", {"apiVersion": "v1", "kind": "Pod", "select": "bound"}))
    assert not (await offline_rollout.survey(client, "cm", namespace, "a")).doubts
    await apply(kube, sync_rule("more", {**CONFIG_MAPS, "namespaces": [namespace]}))
    found = await offline_rollout.survey(client, "cm", namespace, "a")
    assert found.doubts == ("SyncRule more cannot be read: its selector makes no sense",) and not found.is_done
    with pytest.raises(offline_rollout.NoRollout, match="no SyncRule names the kind secret; SyncRule more cannot be"):
        await offline_rollout.survey(client, "secret", namespace, "a")
    monkeypatch.setattr(sync_rules, "routes", refuse)
    found = await offline_rollout.survey(client, "edgeroutes", namespace, "r")
    assert (found.rows, found.doubts) == ((), ("EdgeRoutes r cannot be read: its selector makes no sense",))
