"""Monitors and rules: what they choose is there, and the Prometheus operator's own definitions take them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.support.kube.charts import CHARTS, NAMESPACE, RELEASE, helm, helm_with
from tests.support.kube.cluster import Cluster
from tests.support.kube.operator_definitions import KINDS, definitions

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("helm")]
VALUES: dict[str, dict[str, Any]] = {
    "fairlead": {
        "monitoring": {
            "serviceMonitors": {
                "enabled": True,
                "labels": {"release": "prometheus"},
                "interval": "15s",
                "relabelings": [{"targetLabel": "site", "replacement": "north"}],
            },
            "rules": {"enabled": True, "labels": {"release": "prometheus"}},
        }
    },
    "fairlead-edge": {
        "certificates": {"source": "host"},
        "monitoring": {"podMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
    },
}


def rendered(chart: str) -> list[dict[str, Any]]:
    text = helm_with(VALUES[chart], "template", RELEASE, str(CHARTS / chart), "--namespace", NAMESPACE)
    return [each for each in yaml.safe_load_all(text) if each]


def of_kind(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in found if each["kind"] == kind]


def test_each_service_monitor_chooses_one_port() -> None:
    """Exactly one Service of the room has the port it names, and that one is no way in from outside."""
    found = rendered("fairlead")
    monitors = of_kind(found, "ServiceMonitor")
    assert len(monitors) == 3
    for monitor in monitors:
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        [endpoint] = monitor["spec"]["endpoints"]
        chosen = [
            service
            for service in of_kind(found, "Service")
            if wanted <= service["metadata"]["labels"].items()
            and any(port["name"] == endpoint["port"] for port in service["spec"]["ports"])
        ]
        assert [service["spec"]["clusterIP"] for service in chosen] == ["None"], monitor["metadata"]["name"]
        room = monitor["metadata"]["labels"]["app.kubernetes.io/component"]
        assert endpoint["relabelings"][0] == {
            "targetLabel": "job",
            "replacement": f"fairlead-{room}",
            "action": "replace",
        }
        pods = [each["spec"]["template"] for each in found if "template" in each.get("spec", {})]
        [chosen_pod] = [
            pod for pod in pods if chosen[0]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        ]
        assert endpoint["port"] in [port["name"] for port in chosen_pod["spec"]["containers"][0]["ports"]]


def test_the_pod_monitor_chooses_the_agents() -> None:
    """By labels that each DaemonSet's Pods have, and a port they name."""
    found = rendered("fairlead-edge")
    [monitor] = of_kind(found, "PodMonitor")
    [agents] = of_kind(found, "DaemonSet")
    template = agents["spec"]["template"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] in [port["name"] for port in template["spec"]["containers"][0]["ports"]]


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server of its own with the operator's definitions: the session's has none, and other tests count on it."""
    paths = definitions()
    with Cluster(tmp_path_factory.mktemp("operated")) as cluster:
        for path in paths:
            cluster.kubectl("apply", "--server-side", "-f", str(path))
        names = [f"crd/{kind}.monitoring.coreos.com" for kind in KINDS]
        cluster.kubectl("wait", "--for=condition=Established", *names, "--timeout=120s")
        yield cluster


@pytest.mark.verify
@pytest.mark.kube
@pytest.mark.parametrize("chart", VALUES)
def test_the_operators_definitions_take_them(chart: str, operated: Cluster) -> None:
    """On a real API server, strictly: an unknown field or a wrong type would be an error."""
    monitors = [each for each in rendered(chart) if each["apiVersion"] == "monitoring.coreos.com/v1"]
    assert len(monitors) == (7 if chart == "fairlead" else 1)
    said = operated.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-n", "default", "-f", "-",
        stdin=yaml.safe_dump_all(monitors),
    )  # fmt: skip
    assert said.count("serverside-applied") == len(monitors)


def test_without_the_operator_helm_says_so(cluster: Cluster, namespace: str) -> None:
    """Nothing is changed, and the kind that is missing is named."""
    values = ("--set", "monitoring.serviceMonitors.enabled=true", "--set", "certificates.source=existing")
    install = ("install", "unmonitored", str(CHARTS / "fairlead"), "-n", namespace, "--skip-crds", *values)
    done = helm(*install, kubeconfig=cluster.kubeconfig)
    assert done.returncode != 0 and 'no matches for kind "ServiceMonitor"' in done.stderr
    assert "unmonitored" not in cluster.kubectl("get", "all,configmaps,secrets", "-n", namespace)
