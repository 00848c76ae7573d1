"""What Fairlead reports of itself is followed: every party the real program, read by `fairlead topics tail`."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub import CRDS, HubProcess, config_map, edge_node, sync_rule
from tests.support.kube.cluster import Cluster
from tests.support.processes import wait_until
from tests.support.topics.messaging_service import MessagingService

pytestmark = pytest.mark.process

ROOM = 1024 * 1024
"""Of the node's store, in bytes."""
TOO_LARGE = {"blob": "x" * (900 * 1024)}
AT_ONCE = "[delivery]\nretries_max = 0\n[record]\nflush_seconds = 0.1\n"
ROUTES = {
    "apiVersion": "fairlead.dev/v1alpha1",
    "kind": "EdgeRoutes",
    "metadata": {"name": "story"},
    "spec": {
        "schemaVersion": "1.1",
        "routes": {"bad": {"route": "FROM /messages/* INTO $cloud"}},
        "storeAndForwardConfiguration": {"timeToLiveSecs": 60},
    },
}


@pytest.fixture
def kube(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with our definitions, and without our objects afterwards."""
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    yield cluster
    cluster.kubectl("delete", "syncrules,edgeroutes,edgenodes,clusterobjectsyncs,nodes,leases", "--all", "--wait=true")


def tail(messaging: MessagingService) -> list[dict[str, Any]]:
    """What a user sees."""
    command = [sys.executable, "-m", "fairlead_cli.main", "topics", "--url", messaging.url, "tail", "system/events"]
    done = subprocess.run([*command, "--limit", "1000", "-o", "json"], capture_output=True, text=True, timeout=120)
    return [json.loads(base64.b64decode(json.loads(line)["payload"])) for line in done.stdout.splitlines()]


def test_a_parked_object_is_on_the_system_topic(kube: Cluster, namespace: str, tmp_path: Path) -> None:
    """A node comes, cannot hold an object, refuses a route, and goes; messaging is killed meanwhile."""
    messaging = MessagingService(tmp_path / "messaging").start()
    hub = HubProcess(kube, tmp_path, top=f'messaging_url = "{messaging.url}"', toml=AT_ONCE).start()
    edge = EdgeAgent(tmp_path, hub.url, node="story-1", STORE_MAX_BYTES=str(ROOM))
    try:
        kube.apply(edge_node("story-1"))
        kube.apply(ROUTES)
        kube.apply(sync_rule("story", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [namespace]}))
        edge.start()
        wait_until("the node is there", lambda: hub.metric("fairlead_hub_events_published_total") >= 3, seconds=120)
        messaging.kill()
        kube.kubectl("create", "-f", "-", stdin=json.dumps(config_map("too-large", namespace, **TOO_LARGE)))
        wait_until("it is parked", lambda: hub.metric("fairlead_hub_parked_objects") == 1, seconds=120)
        messaging.start()
        edge.kill()

        def left() -> bool:
            return any(each["type"] == "dev.fairlead.node.away" for each in tail(messaging))

        wait_until("the node has left", left, seconds=120)
        events = [each for each in tail(messaging) if each.get("node") == "story-1"]
        types = [each["type"].removeprefix("dev.fairlead.") for each in events]
        assert types == ["node.connected", "routes.refused", "object.parked", "node.away"]
        assert "$cloud" in events[1]["data"]["errors"][0]["message"]
        parked = events[2]["data"]
        assert (parked["object"]["kind"], parked["object"]["name"]) == ("ConfigMap", "too-large")
        assert parked["reason"] == "store_full" and "xxxx" not in json.dumps(events)
        assert hub.metric("fairlead_hub_events_dropped_total") == 0
        assert hub.stop() == 0
        last = tail(messaging)
        assert [last[0]["type"], last[-1]["type"]] == ["dev.fairlead.hub.started", "dev.fairlead.hub.stopped"]
        assert len({each["id"] for each in last}) == len(last), "none is there twice"
    finally:
        edge.kill()
        hub.kill()
        messaging.stop()
