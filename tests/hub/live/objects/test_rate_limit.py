"""The overall rate limit of a real hub, seen at a real edge agent: how fast, in which order, what the metrics say."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.support import processes
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub import HubProcess, config_map, sync_rule
from tests.support.kube.cluster import Cluster

COUNT, RATE, BURST = 240, 0.5, 5
"""The mass takes eight minutes: however busy the machine is, it is not over while the test looks."""
TOML = f"[rate_limit]\nobjects_per_second = {RATE}\nburst = {BURST}\n"


@pytest.fixture
def hub_settings() -> str:
    return TOML


def wait_until(what: str, condition: Callable[[], Any]) -> None:
    processes.wait_until(what, condition, seconds=120.0)


def rule(name: str, namespace: str, tier: str, **entry: Any) -> dict[str, Any]:
    labels = {"matchLabels": {"tier": tier}}
    maps = {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [namespace], "labelSelector": labels, **entry}
    return sync_rule(name, maps)


def labelled(name: str, namespace: str, tier: str) -> dict[str, Any]:
    body = config_map(name, namespace, v="1")
    body["metadata"]["labels"] = {"tier": tier}
    return body


@pytest.mark.verify
def test_many_objects_arrive_at_the_rate_limit_and_an_urgent_one_first(
    kube: Cluster, namespace: str, hub: HubProcess, edge: EdgeAgent
) -> None:
    """Never faster than burst and rate; what has priority 0 is there while the others still wait."""

    def held() -> set[str]:
        status, found = edge.get(f"/api/v1/namespaces/{namespace}/configmaps")
        return {item["metadata"]["name"] for item in found["items"]} if status == 200 else set()

    kube.apply([labelled(f"c{number}", namespace, "mass") for number in range(COUNT)])
    kube.apply(rule("urgent", namespace, "urgent", priority=0))
    started = time.monotonic()
    kube.apply(rule("mass", namespace, "mass"))
    wait_until("the node waits for its turn", lambda: hub.metric("fairlead_hub_nodes_rate_limited") == 1)
    kube.apply([labelled("urgent", namespace, "urgent")])
    wait_until("the urgent one is there", lambda: "urgent" in held())
    there = len(held())
    assert there < COUNT, "and most of the others are not"
    assert there <= 1 + BURST + RATE * (time.monotonic() - started)
    assert hub.metric("fairlead_hub_rate_limited_total") >= 1
