"""`helm upgrade` with other values, on a real API server: what may change, and what is refused with its remedy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.support.kube.charts import CHARTS, RELEASE, helm, helm_with, objects
from tests.support.kube.cluster import Cluster

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("helm")]
CHART = str(CHARTS / "fairlead")
LOCAL: Mapping[str, Any] = {
    "certificates": {"source": "existing"},
    "ingest": {"table": "s3://tables/telemetry", "compaction": {"enabled": True}},
}
EMPTY_DIR = {"type": "emptyDir", "size": "1Gi"}


@pytest.fixture
def released(cluster: Cluster, namespace: str) -> Iterator[str]:
    """A release with its table in a store; its namespace."""
    helm_with(LOCAL, "install", RELEASE, CHART, "-n", namespace, "--skip-crds", kubeconfig=cluster.kubeconfig)
    yield namespace
    helm("uninstall", RELEASE, "-n", namespace, kubeconfig=cluster.kubeconfig)


def held(cluster: Cluster, namespace: str) -> dict[str, dict[str, Any]]:
    """Objects of ingest by kind and name."""
    kinds = "statefulset,service,configmap,serviceaccount,secret,role,rolebinding,cronjob"
    found = json.loads(cluster.kubectl("get", kinds, "-n", namespace, "-o", "json"))["items"]
    return {
        f"{each['kind']}/{each['metadata']['name']}": each for each in found if "-ingest" in each["metadata"]["name"]
    }


def test_executors_come_and_go_with_the_mode(cluster: Cluster, released: str) -> None:
    """The StatefulSet stays the same object; what is for executors alone is made, and gone afterwards."""
    before = held(cluster, released)
    upgrade = ("upgrade", RELEASE, CHART, "-n", released, "--reuse-values", "--set")
    assert helm(*upgrade, "ingest.spark.mode=kubernetes", kubeconfig=cluster.kubeconfig).returncode == 0
    changed = held(cluster, released)
    assert set(changed) - set(before) == {
        "ConfigMap/fl-fairlead-ingest-executor", "Role/fl-fairlead-ingest", "RoleBinding/fl-fairlead-ingest",
        "Secret/fl-fairlead-ingest-spark", "ServiceAccount/fl-fairlead-ingest-executor",
    }  # fmt: skip
    assert helm(*upgrade, "ingest.spark.mode=local", kubeconfig=cluster.kubeconfig).returncode == 0
    after = held(cluster, released)
    assert set(after) == set(before)
    for name, each in after.items():
        assert each["metadata"]["uid"] == before[name]["metadata"]["uid"] == changed[name]["metadata"]["uid"], name
        assert (each.get("spec"), each.get("data")) == (before[name].get("spec"), before[name].get("data")), name


@pytest.mark.parametrize("room", ["ingest", "messaging"])
def test_a_changed_volume_is_refused_with_the_way(cluster: Cluster, namespace: str, room: str) -> None:
    """Kubernetes does not let a StatefulSet change its claims; the steps in the chart's message make it possible."""
    sets = [each for each in objects("defaults") if each["kind"] == "StatefulSet"]
    cluster.kubectl(
        "apply", "-n", namespace, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": sets})
    )
    command = ("template", RELEASE, CHART, "-n", namespace, "--dry-run=server")
    same = {"certificates": {"source": "existing"}}
    helm_with(same, *command, kubeconfig=cluster.kubeconfig)
    remedy = f"kubectl delete statefulset fl-fairlead-{room} -n {namespace} --cascade=orphan"
    with pytest.raises(AssertionError, match=f"{room}.persistence.type: is claim in this installation.*{remedy}"):
        helm_with({**same, room: {"persistence": EMPTY_DIR}}, *command, kubeconfig=cluster.kubeconfig)
    cluster.kubectl(*remedy.split()[1:])
    helm_with({**same, room: {"persistence": EMPTY_DIR}}, *command, kubeconfig=cluster.kubeconfig)
