"""State Behind, paused objects and the two versions of an ObjectSync, as people see them: with kubectl, on a real API
server, with the real hub and a real edge agent."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.support import processes
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub import HubProcess, config_map, sync_rule
from tests.support.kube.cluster import Cluster

WHY = "price list is checked by hand"


def wait_until(what: str, condition: Callable[[], Any], describe: Callable[[], str] = lambda: "") -> None:
    processes.wait_until(what, condition, seconds=120.0, describe=describe)


def columns(kube: Cluster, namespace: str) -> dict[str, dict[str, str]]:
    """``kubectl get osync -o wide``, by the name of the object: header → cell."""
    lines = kube.kubectl("get", "osync", "-n", namespace, "-o", "wide").splitlines()
    found = {}
    headers = list(re.finditer(r"\S+( \S+)*", lines[0])) if lines else []
    for line in lines[1:]:
        ends = [*(each.start() for each in headers[1:]), None]
        cells = [line[each.start() : end].strip() for each, end in zip(headers, ends, strict=True)]
        # The first NAME is the ObjectSync's own, the second that of the object.
        row = dict(zip([each.group() for each in headers], cells, strict=True))
        found[row["NAME"]] = row
    return found


def shows(kube: Cluster, namespace: str, name: str, **cells: str) -> Callable[[], bool]:
    """Does the line of this object show these cells?"""

    def condition() -> bool:
        found = columns(kube, namespace).get(name, {})
        return all(found.get(key) == value for key, value in cells.items())

    return condition


def version(kube: Cluster, namespace: str, kind: str, name: str) -> str:
    return kube.kubectl("get", kind, name, "-n", namespace, "-o", "jsonpath={.metadata.resourceVersion}").strip()


def held(edge: EdgeAgent, namespace: str) -> dict[str, str]:
    """Name → value of the test's own ConfigMaps on the node."""
    status, found = edge.get(f"/api/v1/namespaces/{namespace}/configmaps")
    items = found["items"] if status == 200 else []
    return {item["metadata"]["name"]: item["data"]["v"] for item in items if item["metadata"]["name"][0] == "c"}


def fairlead(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "fairlead_cli.main", *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def config_maps(namespace: str) -> dict[str, Any]:
    return sync_rule("all", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [namespace]})


def apply(kube: Cluster, namespace: str, name: str, value: str) -> str:
    """The version it has now."""
    kube.apply([config_map(name, namespace, v=value)])
    return version(kube, namespace, "configmap", name)


@pytest.mark.verify
def test_kubectl_shows_which_away_nodes_are_behind_also_after_a_restart_of_the_hub(
    kube: Cluster, namespace: str, hub: HubProcess, edge: EdgeAgent
) -> None:
    """With wanted and held versions and since when; a change that came while no hub ran counts, too."""
    first, other = apply(kube, namespace, "c1", "1"), apply(kube, namespace, "c2", "1")
    kube.apply(config_maps(namespace))
    for name, at in (("c1", first), ("c2", other)):
        wait_until(f"{name} is Synced", shows(kube, namespace, name, STATE="Synced", WANTED=at, HELD=at))
    edge.kill()
    second = apply(kube, namespace, "c1", "2")
    wait_until(
        "c1 is Behind", shows(kube, namespace, "c1", STATE="Behind", WANTED=second, HELD=first, REASON="NodeAway")
    )
    line = columns(kube, namespace)["c1"]
    assert line["SINCE"].endswith("s") and line["MESSAGE"] == "the node is away"
    assert columns(kube, namespace)["c2"]["STATE"] == "Synced"
    asked = (
        "explain",
        "configmap/c1",
        "-n",
        namespace,
        "--node",
        "edge-1",
        "--hub",
        f"http://127.0.0.1:{hub.http_port}",
    )
    assert f"is Behind: it holds version {first}, version {second} is wanted" in fairlead(*asked)
    hub.kill()
    later, new = apply(kube, namespace, "c2", "2"), apply(kube, namespace, "c3", "1")
    kube.kubectl("delete", "configmap", "c1", "-n", namespace)
    hub.start()
    wait_until("c2 is Behind", shows(kube, namespace, "c2", STATE="Behind", WANTED=later, HELD=other))
    wait_until("c3 is Behind", shows(kube, namespace, "c3", STATE="Behind", WANTED=new, HELD=""))
    wait_until("c1 is Deleting", shows(kube, namespace, "c1", STATE="Deleting", HELD=first, REASON="NodeAway"))
    edge.start()
    for name, at in (("c2", later), ("c3", new)):
        wait_until(f"{name} is Synced", shows(kube, namespace, name, STATE="Synced", WANTED=at, HELD=at))
    wait_until("c1 is gone", lambda: "c1" not in columns(kube, namespace))
    assert held(edge, namespace) == {"c2": "2", "c3": "1"}


@pytest.mark.verify
def test_an_object_is_paused_by_kubectl_over_a_kill_of_the_hub_and_resumed(
    kube: Cluster, namespace: str, hub: HubProcess, edge: EdgeAgent
) -> None:
    """ObjectSync and explain give the reason; then the newest content is there at once."""
    first = apply(kube, namespace, "c1", "1")
    apply(kube, namespace, "c2", "1")
    kube.apply(config_maps(namespace))
    wait_until("all is there", lambda: held(edge, namespace) == {"c1": "1", "c2": "1"})
    wait_until("c1 is Synced", shows(kube, namespace, "c1", STATE="Synced", HELD=first))
    kube.kubectl("annotate", "configmap", "c1", "-n", namespace, f"fairlead.dev/paused={WHY}")
    wait_until("c1 says so", shows(kube, namespace, "c1", STATE="Synced", HELD=first, REASON="Paused", MESSAGE=WHY))
    kube.kubectl("patch", "configmap", "c1", "-n", namespace, "--type=merge", "-p", '{"data": {"v": "2"}}')
    apply(kube, namespace, "c2", "2")
    wait_until("c2 is there", lambda: held(edge, namespace).get("c2") == "2")
    wait_until("c1 waits", shows(kube, namespace, "c1", STATE="Pending", HELD=first, REASON="Paused", MESSAGE=WHY))
    hub.kill()
    hub.start()
    apply(kube, namespace, "c2", "3")
    wait_until("c2 is there", lambda: held(edge, namespace).get("c2") == "3")
    assert held(edge, namespace)["c1"] == "1"
    for way in (("--hub", f"http://127.0.0.1:{hub.http_port}"), ("--kubeconfig", str(kube.kubeconfig))):
        said = fairlead("explain", "configmap/c1", "-n", namespace, "--node", "edge-1", *way)
        assert "paused" in said and WHY in said, said
    assert hub.metric("fairlead_hub_objects_paused") == 1
    kube.kubectl("annotate", "configmap", "c1", "-n", namespace, "fairlead.dev/paused-")
    wait_until("c1 is there", lambda: held(edge, namespace)["c1"] == "2")
    wait_until("c1 is Synced", shows(kube, namespace, "c1", STATE="Synced", REASON=""))
    status, found = edge.get(f"/api/v1/namespaces/{namespace}/configmaps/c1")
    assert status == 200 and "fairlead.dev/paused" not in found["metadata"].get("annotations", {})
    kube.kubectl("annotate", "configmap", "c1", "-n", namespace, f"fairlead.dev/paused={WHY}")
    wait_until("c1 says so", shows(kube, namespace, "c1", REASON="Paused"))
    kube.kubectl("delete", "configmap", "c1", "-n", namespace)
    wait_until("deleted, it goes", lambda: "c1" not in held(edge, namespace))


@pytest.mark.verify
def test_wanted_and_held_are_one_version_while_synced_whatever_changes_of_the_status(
    kube: Cluster, namespace: str, hub: HubProcess, edge: EdgeAgent
) -> None:
    """A change of status alone moves neither column; nor does a restart of the hub, or a change that was taken back."""
    service = {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "till", "namespace": namespace},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    }  # fmt: skip
    kube.apply([service])
    kube.apply(sync_rule("services", {"apiVersion": "v1", "kind": "Service", "namespaces": [namespace]}))
    first = version(kube, namespace, "service", "till")
    synced = shows(kube, namespace, "till", STATE="Synced", WANTED=first, HELD=first)
    wait_until("it is Synced", synced)
    status = '{"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}'
    kube.kubectl("patch", "service", "till", "-n", namespace, "--subresource=status", "--type=merge", "-p", status)
    assert version(kube, namespace, "service", "till") != first
    wait_until("the hub has seen it", lambda: hub.metric("fairlead_hub_same_content_total") >= 1)
    assert synced()
    hub.kill()
    hub.start()
    wait_until("the node is back", lambda: hub.metric("fairlead_hub_nodes_connected") == 1)
    label = ("label", "service", "till", "-n", namespace)
    kube.kubectl(*label, "a=b")
    now = version(kube, namespace, "service", "till")
    wait_until("the new content is held", shows(kube, namespace, "till", STATE="Synced", WANTED=now, HELD=now))
    edge.kill()
    kube.kubectl(*label, "a=c", "--overwrite")
    wait_until("it is Behind", shows(kube, namespace, "till", STATE="Behind", HELD=now))
    kube.kubectl(*label, "a=b", "--overwrite")
    wait_until("it is Synced again", shows(kube, namespace, "till", STATE="Synced"))
    line = columns(kube, namespace)["till"]
    assert line["WANTED"] == line["HELD"] == version(kube, namespace, "service", "till")
    edge.start()
    wait_until("the node is back", lambda: hub.metric("fairlead_hub_nodes_connected") == 1)
