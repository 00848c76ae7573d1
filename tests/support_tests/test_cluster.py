"""The test cluster is a real API: it stores, collects garbage, and comes back after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.kube.cluster import Cluster
from tests.support.kube.kubernetes import KubectlError, Kubernetes
from tests.support.processes import wait_until

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: knots.support.fairlead.test}
spec:
  group: support.fairlead.test
  scope: Namespaced
  names: {plural: knots, singular: knot, kind: Knot}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
"""


def test_it_is_kubernetes_with_the_pinned_version(cluster: Cluster) -> None:
    """Unless the user brings programs of their own, the server reports the version we pinned."""
    expected = "v1." if os.environ.get("KUBEBUILDER_ASSETS") else "v1.36.3"
    assert cluster.get("/version")["gitVersion"].startswith(expected)


def test_a_new_crd_can_be_listed_after_the_wait(cluster: Cluster) -> None:
    """wait_established hides the 429 of a CRD whose storage is still coming up."""
    cluster.apply(CRD)
    cluster.wait_established("knots.support.fairlead.test")
    assert cluster.get("/apis/support.fairlead.test/v1/knots")["items"] == []
    cluster.kubectl("delete", "crd", "knots.support.fairlead.test")


def test_a_deleted_namespace_takes_its_objects_along(cluster: Cluster, namespace: str) -> None:
    """The namespace controller runs."""
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}})
    cluster.kubectl("delete", "namespace", namespace)
    assert cluster.kubectl("get", "namespace", namespace, "--ignore-not-found") == ""
    cluster.kubectl("create", "namespace", namespace)


def test_objects_of_a_deleted_owner_are_collected(cluster: Cluster, namespace: str) -> None:
    """The garbage collector runs."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": namespace}}
    cluster.apply(owner)
    uid = cluster.get(f"/api/v1/namespaces/{namespace}/configmaps/owner")["metadata"]["uid"]
    owned = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "owned", "namespace": namespace, "ownerReferences": [owned]},
        }
    )
    cluster.kubectl("-n", namespace, "delete", "configmap", "owner")
    wait_until(
        "the owned ConfigMap is collected",
        lambda: cluster.kubectl("-n", namespace, "get", "configmap", "owned", "--ignore-not-found") == "",
        seconds=100,
    )


def test_a_cluster_of_the_users_is_reached_by_its_kubeconfig(cluster: Cluster) -> None:
    """`make demo KUBECONFIG=…` knows nothing of ports and tokens."""
    assert Kubernetes(cluster.kubeconfig).get("/version")["major"] == "1"


def test_kubectl_errors_carry_the_command_and_the_reason(cluster: Cluster) -> None:
    """A failing test should not need a second run to be understood."""
    with pytest.raises(KubectlError, match=r"kubectl get nonsense exited with 1: .*doesn't have a resource type"):
        cluster.kubectl("get", "nonsense")


def test_objects_survive_the_death_of_api_server_and_etcd(cluster: Cluster, namespace: str) -> None:
    """kill -9 of both, and what was stored is there on the same address."""
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": namespace}})
    cluster.restart_etcd()
    cluster.restart_apiserver()
    assert cluster.get(f"/api/v1/namespaces/{namespace}/configmaps/kept")["metadata"]["name"] == "kept"


@pytest.mark.kube
def test_nothing_outlives_a_killed_test_run(tmp_path: Path) -> None:
    """kill -9 of the process that started a cluster ends etcd, API server and controllers too."""
    program = (
        "import sys, pathlib, time; from tests.support.kube.cluster import Cluster\n"
        "cluster = Cluster(pathlib.Path(sys.argv[1])).start()\n"
        "print(*(running.pid for running in cluster.running.values()), flush=True)\n"
        "time.sleep(600)\n"
    )
    root = Path(__file__).resolve().parents[2]
    owner = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) == 3
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    wait_until("all three are gone", lambda: not any(is_running(pid) for pid in pids), seconds=100)


def is_running(pid: int) -> bool:
    """True while `pid` runs; a zombie that was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
