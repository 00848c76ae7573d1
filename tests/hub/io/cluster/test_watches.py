"""The hub's core fed by a real API server: rules start watches, doubt freezes, documents of ours are looked after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.support.edges.upstream import until
from tests.support.hubs.hub import config_map, edge_node, sync_rule
from tests.support.hubs.watching import apply, own, watching
from tests.support.kube.api_front import ApiFront
from tests.support.kube.cluster import Cluster

from fairlead_hub.cluster.listed import EDGE_NODES
from fairlead_hub.hub import Hub
from fairlead_hub.io.cluster.kube import Kube
from fairlead_hub.io.cluster.status_writer import KubeStatusClient, StatusWriter
from fairlead_hub.io.io_counts import IoCounts
from fairlead_hub.status import object_sync

CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}
KIND = ("", "ConfigMap")
MAP = "api/v1/namespaces/shop/configmaps/a"
ROOT = "apis/fairlead.dev/v1alpha1"


def listed(hub: Hub) -> Callable[[], bool]:
    """Everything the hub starts from is in."""
    return lambda: (
        not hub.desired_state.not_synced("edge-1")
        and not hub.view.topics_unknown()
        and "objectsyncs" in hub.status_cache.synced
    )


def rule_for(namespace: str, name: str = "r", **more: Any) -> dict[str, Any]:
    return sync_rule(name, {**CONFIG_MAPS, "namespaces": [namespace]}, **more)


@pytest.mark.verify
async def test_a_rule_starts_its_watch_and_ends_it(kube: Cluster, client: Kube, namespace: str) -> None:
    """Nothing of a kind is watched or held in memory unless a rule names it."""
    await apply(kube, edge_node("edge-1"), config_map("a", namespace, n="1"))
    async with watching(client) as hub:
        await until(listed(hub))
        assert len(hub.object_cache) == 0
        await apply(kube, rule_for(namespace))
        await until(lambda: own(hub, namespace) == {"a"})
        await client.request("POST", f"api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "b"}})
        await until(lambda: own(hub, namespace) == {"a", "b"})
        await client.request("DELETE", f"api/v1/namespaces/{namespace}/configmaps/a")
        await until(lambda: own(hub, namespace) == {"b"})
        await client.request("DELETE", f"{ROOT}/syncrules/r")
        await until(lambda: len(hub.object_cache) == 0 and KIND not in hub.placement.listed.kinds)


async def test_nodes_come_are_relabelled_and_go(kube: Cluster, client: Kube) -> None:
    """Only those with the edge label are ours."""
    await apply(kube, edge_node("edge-1"), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "server"}})
    async with watching(client) as hub:
        await until(listed(hub))
        assert set(hub.placement.rules.nodes) == {"edge-1"}
        await asyncio.to_thread(kube.kubectl, "label", "node", "server", "node-role.kubernetes.io/edge=")
        await until(lambda: "server" in hub.placement.rules.nodes)
        await asyncio.to_thread(kube.kubectl, "label", "node", "server", "node-role.kubernetes.io/edge-")
        await asyncio.to_thread(kube.kubectl, "delete", "node", "edge-1")
        await until(lambda: not hub.placement.rules.nodes)


async def test_a_kind_that_may_not_be_listed_is_frozen(kube: Cluster, namespace: str) -> None:
    """403: what edges hold of it stays, and the reason is reported."""
    await apply(kube, edge_node("edge-1"), sync_rule("r", CONFIG_MAPS))
    async with ApiFront(kube) as front:
        front.answer("GET", "api/v1/configmaps", status=403, body=b'{"message": "configmaps is forbidden"}', times=None)
        async with watching(front.client()) as hub:
            await until(lambda: KIND in hub.placement.listed.frozen)
            await until(listed(hub))
            assert "configmaps is forbidden" in hub.desired_state.deletion_blocked("edge-1", MAP)


async def test_a_lost_version_is_doubt_until_the_list_is_in(kube: Cluster, namespace: str) -> None:
    """410 on the watch of a kind: nothing of it is deleted before the new list is whole; then what vanished is."""
    await apply(kube, edge_node("edge-1"), rule_for(namespace), config_map("a", namespace, n="1"))
    async with ApiFront(kube) as front:
        lists = "api/v1/configmaps?limit"

        async def too_old(_: web.Request) -> web.Response:
            front.answer("GET", lists, status=503, headers={"Retry-After": "0"}, times=None)
            return web.Response(status=410, body=b'{"code": 410}')

        front.answer_with("GET", "api/v1/configmaps?watch", too_old)
        counts = IoCounts()
        async with watching(front.client(), counts) as hub:
            await until(lambda: front.seen("GET", lists) > 1)
            assert hub.desired_state.deletion_blocked("edge-1", MAP) == "ConfigMap is not listed yet"
            await asyncio.to_thread(kube.kubectl, "delete", "configmap", "a", "-n", namespace)
            assert own(hub, namespace) == {"a"}, "what we knew counts meanwhile"
            front.pass_everything()
            await until(lambda: own(hub, namespace) == set())
            await until(lambda: hub.desired_state.deletion_blocked("edge-1", MAP) == "")
            assert counts.watch_restarts["version_lost"] == 1


async def test_a_record_deleted_by_hand_is_noticed(kube: Cluster, client: Kube, namespace: str) -> None:
    """The core hears of every document of ours: that it stands, and that it is gone."""
    record = object_sync.Record(
        node="edge-1", api_version="v1", kind="ConfigMap", namespace=namespace, object_name="a", uid="u1",
        version="1", digest="", wanted_version="1", state="Synced",
    )  # fmt: skip
    name = ("objectsyncs", namespace, record.name)
    await apply(kube, edge_node("edge-1"))
    await client.request("POST", f"{ROOT}/namespaces/{namespace}/objectsyncs", object_sync.head(record))
    async with watching(client) as hub:
        await until(listed(hub))
        assert name in hub.status_cache.observed and name in hub.status_cache.of_node("edge-1")
        await client.request("DELETE", f"{ROOT}/namespaces/{namespace}/objectsyncs/{record.name}")
        await until(lambda: name not in hub.status_cache.observed)


async def test_a_record_of_a_node_that_is_no_more_is_collected(kube: Cluster, client: Kube, namespace: str) -> None:
    """Found by the first lists after a restart."""
    record = object_sync.Record(
        node="gone", api_version="v1", kind="ConfigMap", namespace=namespace, object_name="a", uid="u1",
        version="1", digest="", wanted_version="1", state="Synced",
    )  # fmt: skip
    await client.request("POST", f"{ROOT}/namespaces/{namespace}/objectsyncs", object_sync.head(record))
    async with watching(client) as hub:
        await until(listed(hub))
        hub.reconcile(0.0)
        assert hub.status_cache.pending(("objectsyncs", namespace, record.name)) is not None


async def test_granted_topics_are_read_back(kube: Cluster, client: Kube) -> None:
    """From EdgeNode documents, so that a restart forgets no grant."""
    await apply(kube, edge_node("edge-1"), {
        "apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeNode", "metadata": {"name": "edge-1"},
    })  # fmt: skip
    await asyncio.to_thread(
        kube.kubectl, "patch", "edgenode", "edge-1", "--subresource=status", "--type=merge",
        '-p={"status": {"connected": true, "grantedTopics": ["shop/alarms"]}}',
    )  # fmt: skip
    async with watching(client) as hub:
        await until(listed(hub))
        assert hub.grants.of("edge-1") == {"shop/alarms"}
        assert (EDGE_NODES, "", "edge-1") in hub.status_cache.observed


async def test_routes_are_objects_like_any_other(kube: Cluster, client: Kube) -> None:
    """No rule is needed for EdgeRoutes; their topics are known with them."""
    routes = {
        "apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeRoutes", "metadata": {"name": "main"},
        "spec": {"schemaVersion": "1.1", "routes": {"r": {"route": "FROM /* INTO $upstream", "topic": "shop/alarms"}},
                 "storeAndForwardConfiguration": {}},
    }  # fmt: skip
    await apply(kube, edge_node("edge-1"), routes)
    async with watching(client) as hub:
        await until(lambda: "edgeroutes.fairlead.dev//main" in hub.desired_state.desired_objects("edge-1"))
        assert hub.grants.topics() == {"default/telemetry", "shop/alarms"}
        await client.request("DELETE", f"{ROOT}/edgeroutes/main")
        await until(lambda: not hub.desired_state.desired_objects("edge-1"))


async def test_the_status_of_a_rule_is_in_the_api(defined: Cluster, client: Kube) -> None:
    """Through the status subresource alone: the spec belongs to its user."""
    await asyncio.to_thread(defined.apply, [edge_node("edge-1"), sync_rule("r", CONFIG_MAPS)])
    try:
        async with watching(client) as hub:
            await until(lambda: len(hub.placement.rules.members_of("r")) == 1)
            writer = StatusWriter(
                hub.documents, KubeStatusClient(client), clock=lambda: 0.0, in_flight=1, fence=lambda: 1,
                may_write=lambda: True, on_fenced=lambda _: None,
            )  # fmt: skip
            before = msgspec.json.decode(await client.get(f"{ROOT}/syncrules/r"))
            hub.rule_statuses.report(0.0)
            await writer.write(hub.take_ready(0.0).documents)
            after = msgspec.json.decode(await client.get(f"{ROOT}/syncrules/r"))
        assert after["status"]["matchedNodes"] == 1
        assert (after["spec"], after["metadata"]["generation"]) == (before["spec"], before["metadata"]["generation"])
        await client.request("DELETE", f"{ROOT}/syncrules/r")
        hub.cluster.set_node("edge-2", "u", {}, 0.0)
        hub.rule_statuses.report(0.0)
        gone = hub.counts.status_writes["gone"]
        await writer.write(hub.take_ready(0.0).documents)
        assert hub.counts.status_writes["gone"] > gone, "what other tests of this API server left may be gone as well"
        assert "/r\n" not in await asyncio.to_thread(defined.kubectl, "get", "syncrules", "-o=name"), "not brought back"
        assert len(hub.status_cache) == 0
    finally:
        await asyncio.to_thread(defined.kubectl, "delete", "syncrules,nodes", "--all")
