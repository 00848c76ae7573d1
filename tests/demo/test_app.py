"""The demo's manifests: YAML with everything the story needs, and accepted by a real API server."""

from __future__ import annotations

import yaml
from e2e.demo import expected
from e2e.demo.objects import node_manifest
from e2e.demo.stack import NODES, TOPICS
from e2e.demo.story import APP
from tests.support.kube.cluster import Cluster


def test_every_node_has_a_share_of_its_own() -> None:
    """Pods for every node, and the ConfigMaps the story changes and deletes."""
    items = [item for path in sorted(APP.glob("*.yaml")) for item in yaml.safe_load_all(path.read_text())]
    assert {item["spec"]["nodeName"] for item in items if item["kind"] == "Pod"} == set(NODES)
    names = {item["metadata"]["name"] for item in items if item["kind"] == "ConfigMap"}
    assert {"tide-table", "ice-warning", "berth-plan", "office-notes"} <= names
    [routes] = [item for item in items if item["kind"] == "EdgeRoutes"]
    assert {route["topic"] for route in routes["spec"]["routes"].values()} == set(TOPICS)
    for node in NODES:
        assert ("ConfigMap", "office-notes") not in expected.share(node, items)


def test_the_api_server_takes_the_core_manifests(cluster: Cluster) -> None:
    """A dry run on the server of everything that needs no definition of ours."""
    cluster.kubectl("apply", "-f", str(APP / "00-namespace.yaml"))
    try:
        for path in sorted(APP.glob("[1-3]*.yaml")):
            cluster.kubectl("apply", "--dry-run=server", "-f", str(path))
        cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(node_manifest("edge-1")))
    finally:
        cluster.kubectl("delete", "namespace", expected.NAMESPACE, "--wait=false")
