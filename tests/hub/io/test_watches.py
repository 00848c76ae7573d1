"""The hub's watches on a real API server: what they tell the core, and when it is complete."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest
from tests.support.cluster import Cluster
from tests.support.hub import config_map, edge_node, sync_rule

from fairlead_hub.hub import Hub
from fairlead_hub.io.kube import Kube, Refused
from fairlead_hub.io.watches import Watches, discover
from fairlead_hub.settings import Settings


async def eventually(condition: Callable[[], object], seconds: float = 15.0) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not come true"
        await asyncio.sleep(0.02)


@pytest.fixture
async def hub(defined: Cluster, client: Kube) -> AsyncIterator[Hub]:
    """A core that watches."""
    watching = Hub(Settings(security="insecure"), name="hub", fence=1, wall_offset=0.0)
    loop = asyncio.get_running_loop()
    watches = Watches(client, watching, clock=loop.time, poke=lambda: watching.settle(loop.time()))
    task = asyncio.create_task(watches.run())
    yield watching
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    defined.kubectl("delete", "syncrules,nodes", "--all")


async def test_nothing_is_certain_before_everything_is_listed(hub: Hub, defined: Cluster, namespace: str) -> None:
    """Nodes, rules and EdgeRoutes first, then the kinds that rules name; changes of rules start and stop watches."""
    assert hub.waiting_for("edge-w")
    defined.apply([edge_node("edge-w"), config_map("a", namespace, v="1")])
    defined.apply(sync_rule("w", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [namespace]}))
    await eventually(lambda: not hub.waiting_for("edge-w") and hub.wanted("edge-w"))
    assert f"configmaps/{namespace}/a" in hub.wanted("edge-w")
    defined.kubectl("delete", "syncrule", "w")
    await eventually(lambda: not hub.wanted("edge-w") and len(hub.catalog) == 0)


async def test_a_node_without_the_label_is_none(hub: Hub, defined: Cluster) -> None:
    """Labelled it comes, unlabelled it goes."""
    defined.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "plain-w"}})
    defined.apply(edge_node("edge-w"))
    await eventually(lambda: "edge-w" in hub.placement.nodes)
    assert "plain-w" not in hub.placement.nodes
    defined.kubectl("label", "node", "edge-w", "node-role.kubernetes.io/edge-")
    await eventually(lambda: "edge-w" not in hub.placement.nodes)


async def test_a_kind_nobody_serves_is_frozen_until_somebody_does(hub: Hub, defined: Cluster) -> None:
    """The rule is told why; the other watches go on."""
    defined.apply(sync_rule("w", {"apiVersion": "example.org/v1", "kind": "Gadget"}))
    await eventually(lambda: ("example.org", "Gadget") in hub.placement.frozen)


async def test_discovery_finds_plural_scope_and_short_names(client: Kube) -> None:
    """And says 404 for what is not served."""
    kind = await discover(client, "v1", "ConfigMap")
    assert (kind.root, kind.namespaced) == ("api/v1/configmaps", True)
    assert kind.is_called("cm") and kind.is_called("ConfigMap") and not kind.is_called("pod")
    assert not (await discover(client, "v1", "Namespace")).namespaced
    with pytest.raises(Refused):
        await discover(client, "v1", "Gadget")
    with pytest.raises(Refused):
        await discover(client, "example.org/v1", "Gadget")
