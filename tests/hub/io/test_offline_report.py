"""Where everything stands when no hub can be asked: from Nodes, rules, objects and records of a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import pytest
from tests.support.hubs.hub import config_map, edge_node, sync_rule
from tests.support.kube.api_in_memory import ApiInMemory
from tests.support.kube.cluster import Cluster

from fairlead_hub.cluster import content
from fairlead_hub.io import offline_report
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.status import object_sync, sync_rule_status
from fairlead_wire.objects import api_group

CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}
KIND = content.ServedKind(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)


@pytest.fixture
def kube(defined: Cluster) -> Iterator[Cluster]:
    """The cluster with one edge Node, and without our objects afterwards."""
    defined.apply(edge_node("edge-1"))
    yield defined
    defined.kubectl("delete", "syncrules,edgeroutes,edgenodes,clusterobjectsyncs,nodes", "--all", "--wait=true")


async def apply(kube: Cluster, *objects: dict[str, Any]) -> None:
    await asyncio.to_thread(kube.apply, list(objects))


def edge_account(**annotations: str) -> dict[str, Any]:
    """The EdgeNode of edge-1 with these annotations of ours."""
    said = {f"fairlead.dev/{name}": value for name, value in annotations.items()}
    metadata = {"name": "edge-1", "annotations": said}
    return {"apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeNode", "metadata": metadata}


async def recorded(client: Kube, namespace: str, **fields: Any) -> None:
    """A record as a hub would have left it."""
    defaults: dict[str, Any] = {
        "node": "edge-1", "api_version": "v1", "kind": "ConfigMap", "namespace": namespace, "object_name": "a",
        "uid": "u1", "version": "1", "digest": "", "wanted_version": "1", "state": "Synced",
    }  # fmt: skip
    record = object_sync.Record(**{**defaults, **fields})
    root = f"{api_group.ROOT}/namespaces/{namespace}/objectsyncs"
    await client.request("POST", root, object_sync.head(record))
    status = object_sync.status(record, [], 1, "2026-11-20T12:00:00Z", 1)
    await client.request(
        "PATCH", f"{root}/{record.name}/status", {"status": status}, content_type="application/merge-patch+json"
    )


async def live(client: Kube, namespace: str) -> content.LiveObject:
    return content.build(await client.get(f"api/v1/namespaces/{namespace}/configmaps/a"), KIND)


async def test_what_is_troubled_is_told_of_both_kinds() -> None:
    """In the words of their statuses; what works is not in it."""
    api = ApiInMemory({
        f"{api_group.ROOT}/syncrules": [
            {"metadata": {"name": "good"}, "status": {"matchedNodes": 2, "message": ""}},
            {"metadata": {"name": "new"}},
            {"metadata": {"name": "typo"}, "status": {"unlistedKinds": ["v1 ConfigMaps: not served", "Secret: 403"]}},
        ],
        f"{api_group.ROOT}/edgeroutes": [
            {"metadata": {"name": "main"}, "status": {"failingNodes": [{"node": "edge-1"}], "message": "a: why"}},
            {"metadata": {"name": "for-nobody"}, "status": {"matchedNodes": 0, "message": sync_rule_status.no_node(0)}},
        ],
    })  # fmt: skip
    found = [(row["kind"], row["name"], row["reason"]) for row in await offline_report.troubled(cast(Kube, api))]
    assert found == [
        ("SyncRule", "typo", "v1 ConfigMaps: not served; Secret: 403"),
        ("EdgeRoutes", "main", "not in force everywhere: a: why"),
        ("EdgeRoutes", "for-nobody", sync_rule_status.no_node(0)),
    ]


async def test_a_node_that_lacks_the_label_is_told_how_to_get_it() -> None:
    """And one that is not there is not told so."""
    api = ApiInMemory({"api/v1/nodes": [{"metadata": {"name": "shop-1"}}]})
    found = await offline_report.explain(cast(Kube, api), "shop-1", "configmap", "shop", "a")
    assert found["code"] == "no_node" and found["answer"] == (
        "Node shop-1 lacks the label node-role.kubernetes.io/edge; to make it an edge node:"
        " kubectl label node shop-1 node-role.kubernetes.io/edge="
    )
    found = await offline_report.explain(cast(Kube, api), "shop-2", "configmap", "shop", "a")
    assert found["answer"] == "there is no Node shop-2; fairlead status lists the edge nodes"
    api = ApiInMemory({"api/v1/nodes": [{"metadata": {"name": "shop-1", "labels": {api_group.EDGE_LABEL: ""}}}]})
    found = await offline_report.explain(cast(Kube, api), "shop-01", "configmap", "shop", "a")
    assert found["answer"] == "there is no Node shop-01; did you mean shop-1? fairlead status lists the edge nodes"


async def test_nodes_tell_what_their_edge_nodes_tell(kube: Cluster, client: Kube) -> None:
    """Only those with the edge label; one that never came has empty columns."""
    await apply(
        kube, edge_node("edge-0"), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "server"}},
        {"apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeNode", "metadata": {"name": "edge-1"}},
    )  # fmt: skip
    status = {"connected": True, "objectsWanted": 5, "objectsHeld": 3, "objectsParked": 1}
    await client.request(
        "PATCH",
        f"{api_group.ROOT}/edgenodes/edge-1/status",
        {"status": status},
        content_type="application/merge-patch+json",
    )
    never, one = await offline_report.nodes(client)
    assert (never["node"], never["connected"], never["lastContact"], never["wanted"]) == ("edge-0", False, "", 0)
    assert (one["node"], one["connected"], one["pending"], one["parked"]) == ("edge-1", True, 2, 1)


async def test_parked_records_are_listed(kube: Cluster, client: Kube, namespace: str) -> None:
    """With the reason; those in sync are not."""
    await recorded(client, namespace)
    await recorded(client, namespace, uid="u2", object_name="b", state="Parked", reason="too_large", retries=5)
    mine = [each for each in await offline_report.parked(client) if each["namespace"] == namespace]
    assert [(each["object_name"], each["reason"], each["retries"]) for each in mine] == [("b", "too_large", 5)]


async def test_held_is_judged_by_content(kube: Cluster, client: Kube, namespace: str) -> None:
    """The record has the digest the cluster's object has."""
    await apply(kube, config_map("a", namespace, n="1"), sync_rule("r", CONFIG_MAPS))
    there = await live(client, namespace)
    await recorded(client, namespace, uid=there.uid, digest=there.digest, last_ack_time="2026-11-20T12:00:00Z")
    found = await offline_report.explain(client, "edge-1", "configmap", namespace, "a")
    assert (found["code"], found["answer"]) == ("held", "in sync")
    assert found["lastDelivered"] == "2026-11-20T12:00:00Z"
    assert found["wanted"]["uid"] == found["record"]["uid"] == there.uid


@pytest.mark.parametrize(
    ("record", "code", "answer"),
    [
        ({"state": "Pending", "reason": "Lagging"}, "pending", "Lagging"),
        ({"state": "Parked", "reason": "too_large", "retries": 5}, "parked", "parked after 5 retries: too_large"),
        (None, "no_record", "it is wanted, but the node never acknowledged it"),
    ],
    ids=["pending", "parked", "never acknowledged"],
)
async def test_not_held_says_why(
    kube: Cluster, client: Kube, namespace: str, record: dict[str, Any] | None, code: str, answer: str
) -> None:
    """As far as the record tells."""
    await apply(kube, config_map("a", namespace, n="1"), sync_rule("r", CONFIG_MAPS))
    if record is not None:
        await recorded(client, namespace, uid=(await live(client, namespace)).uid, **record)
    found = await offline_report.explain(client, "edge-1", "cm", namespace, "a")
    assert found["code"] == code and found["answer"].startswith(answer)


async def test_what_is_stopped_says_by_whom(kube: Cluster, client: Kube, namespace: str) -> None:
    """The rule is gone: a removal is due, then guarded, and whatever is due waits while the node is paused."""
    await apply(kube, config_map("a", namespace), edge_account())
    await recorded(client, namespace, uid=(await live(client, namespace)).uid)

    async def code() -> str:
        return str((await offline_report.explain(client, "edge-1", "cm", namespace, "a"))["code"])

    assert await code() == "deleting"
    root, merge = f"{api_group.ROOT}/edgenodes/edge-1", "application/merge-patch+json"
    brake = {"id": "0123abcd", "count": 7, "since": "2026-11-20T12:00:00Z", "released": False}
    await client.request("PATCH", f"{root}/status", {"status": {"deletionGuard": brake}}, content_type=merge)
    assert await code() == "deletion_guard"
    assert (await offline_report.nodes(client))[0]["deletionGuard"]["count"] == 7
    await client.request("PATCH", root, edge_account(paused="disk swap"), content_type=merge)
    assert await code() == "paused"
    assert (await offline_report.nodes(client))[0]["paused"] == "disk swap"


async def test_an_object_no_rule_selects(kube: Cluster, client: Kube, namespace: str) -> None:
    """The rule names another namespace."""
    await apply(kube, config_map("a", namespace), sync_rule("r", {**CONFIG_MAPS, "namespaces": ["other"]}))
    assert (await offline_report.explain(client, "edge-1", "configmap", namespace, "a"))["code"] == "not_selected"


async def test_what_pods_refer_to(kube: Cluster, client: Kube, namespace: str) -> None:
    """A rule with ``referenced`` asks the node's Pods."""
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "nodeName": "edge-1", "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "configMap": {"name": "a"}}],
        },
    }  # fmt: skip
    referenced = sync_rule("r", {**CONFIG_MAPS, "select": "referenced"})
    await apply(kube, config_map("a", namespace), config_map("b", namespace), referenced, pod)
    assert (await offline_report.explain(client, "edge-1", "configmap", namespace, "a"))["code"] == "no_record"
    assert (await offline_report.explain(client, "edge-1", "configmap", namespace, "b"))["code"] == "not_selected"


async def test_an_object_that_is_nowhere(kube: Cluster, client: Kube, namespace: str) -> None:
    """Neither object nor record."""
    await apply(kube, sync_rule("r", CONFIG_MAPS))
    assert (await offline_report.explain(client, "edge-1", "configmap", namespace, "none"))["code"] == "no_object"


async def test_an_object_deleted_while_its_node_is_away(kube: Cluster, client: Kube, namespace: str) -> None:
    """The record is all that tells of it."""
    await apply(kube, sync_rule("r", CONFIG_MAPS))
    await recorded(client, namespace, state="Deleting")
    found = await offline_report.explain(client, "edge-1", "configmap", namespace, "a")
    assert found["code"] == "deleting" and "wanted" not in found


async def test_a_node_that_is_none(kube: Cluster, client: Kube, namespace: str) -> None:
    """Unknown, or without the label."""
    await apply(kube, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "server"}})
    assert (await offline_report.explain(client, "unknown", "configmap", namespace, "a"))["code"] == "no_node"
    found = await offline_report.explain(client, "server", "configmap", namespace, "a")
    assert found["code"] == "no_node" and "node-role.kubernetes.io/edge" in found["answer"]


async def test_a_version_that_is_not_served_hides_no_other_rule(kube: Cluster, client: Kube, namespace: str) -> None:
    """It is passed over, and reported where nothing else is to be said."""
    odd = {"apiVersion": "v2", "kind": "ConfigMap"}
    await apply(kube, config_map("a", namespace), sync_rule("aaa", odd), sync_rule("r", CONFIG_MAPS))
    assert (await offline_report.explain(client, "edge-1", "cm", namespace, "a"))["code"] == "no_record"
    await apply(kube, sync_rule("gadgets", {"apiVersion": "shop.io/v1", "kind": "Gadget"}))
    found = await offline_report.explain(client, "edge-1", "gadget", namespace, "a")
    assert found["code"] == "not_listed" and "shop.io/v1" in found["answer"]
    assert (await offline_report.explain(client, "edge-1", "widget", namespace, "a"))["code"] == "not_watched"


async def test_a_misspelled_name_and_a_missing_namespace(kube: Cluster, client: Kube, namespace: str) -> None:
    """Not the same as an object that no rule selects."""
    await apply(kube, config_map("a-name", namespace), sync_rule("r", CONFIG_MAPS))
    found = await offline_report.explain(client, "edge-1", "cm", namespace, "a-nmae")
    assert found["code"] == "no_object" and found["answer"].endswith("did you mean a-name?")
    found = await offline_report.explain(client, "edge-1", "cm", "default", "a-name")
    assert found["code"] == "no_object" and f"use -n {namespace}" in found["answer"]


async def test_routes_are_objects_like_any_other(kube: Cluster, client: Kube) -> None:
    """No rule is needed for them, and the namespace of the command does not matter."""
    routes: dict[str, Any] = {
        "apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeRoutes", "metadata": {"name": "main"},
        "spec": {"schemaVersion": "1.1", "routes": {"r": {"route": "FROM /* INTO $upstream"}},
                 "storeAndForwardConfiguration": {}},
    }  # fmt: skip
    await apply(kube, routes)
    found = await offline_report.explain(client, "edge-1", "edgeroutes", "default", "main")
    assert (found["code"], found["key"]) == ("no_record", "edgeroutes.fairlead.dev//main")
    none = {"matchLabels": {"no": "such"}}
    await apply(kube, {**routes, "spec": {**routes["spec"], "nodeSelector": none}})
    found = await offline_report.explain(client, "edge-1", "eroutes", "default", "main")
    assert found["code"] == "not_selected" and "its nodeSelector does not select it" in found["answer"]


async def test_long_lists_come_in_pages(kube: Cluster, client: Kube, namespace: str) -> None:
    """A page is no answer."""
    for n in range(5):
        await client.request("POST", f"api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": f"c{n}"}})
    raw = await client.get(f"api/v1/namespaces/{namespace}/configmaps", limit="2")
    assert msgspec.json.decode(raw)["metadata"]["continue"]
    found = await offline_report.items(client, f"api/v1/namespaces/{namespace}/configmaps", limit="2")
    assert {f"c{n}" for n in range(5)} <= {item["metadata"]["name"] for item in found}
