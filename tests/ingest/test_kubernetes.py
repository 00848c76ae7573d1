"""Ingest on Kubernetes by Spark's own backend, on a real API server: what is submitted, and a job with executors.

There is no kubelet here: where a container has to start, the test starts the image's entrypoint with what the Pod says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyspark
import pytest
from tests.support.cluster import Cluster
from tests.support.messaging_service import MessagingService, upstream_message
from tests.support.processes import Running, start, wait_until

import fairlead_ingest.__main__ as program

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "kubernetes"
HOME = Path(pyspark.__file__).parent
PROGRAM = "local:///usr/local/lib/python3.11/site-packages/fairlead_ingest/__main__.py"
CONFIG = "/data/ingest.toml"
ENTRYPOINT = EXAMPLES.parents[1] / "charts" / "images" / "spark-entrypoint.sh"
ENVIRON = {**os.environ, "SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
SECONDS = 200.0


@pytest.mark.timeout(600)
def test_spark_submit_makes_the_drivers_pod(cluster: Cluster, namespace: str) -> None:
    """With the image, the shared volume, the account and the program's own arguments; the API server has taken it."""
    cluster.kubectl("apply", "-n", namespace, "-f", str(EXAMPLES / "rbac.yaml"))
    command = [str(HOME / "bin" / "spark-submit"), "--master", f"k8s://{cluster.server}", "--deploy-mode", "cluster"]
    command += ["--properties-file", str(EXAMPLES / "native.conf"), "--conf", f"spark.kubernetes.namespace={namespace}"]
    environ = {**ENVIRON, "KUBECONFIG": str(cluster.kubeconfig)}
    done = subprocess.run(
        [*command, PROGRAM, "--config", CONFIG], env=environ, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr[-3000:]
    pods = json.loads(cluster.kubectl("get", "pods", "-n", namespace, "-l", "spark-role=driver", "-o", "json"))
    (pod,) = pods["items"]
    (container,) = pod["spec"]["containers"]
    assert pod["spec"]["serviceAccountName"] == "fairlead-ingest"
    assert container["image"] == "ghcr.io/example/fairlead-ingest-cluster:0.1.0"
    assert container["args"][-3:] == [PROGRAM, "--config", CONFIG]
    (claim,) = [each["persistentVolumeClaim"] for each in pod["spec"]["volumes"] if "persistentVolumeClaim" in each]
    assert claim["claimName"] == "fairlead-ingest"
    assert "/data" in [mount["mountPath"] for mount in container["volumeMounts"]]


@pytest.mark.parametrize("resource", ["pods", "services", "configmaps"])
def test_the_driver_may_keep_executors_and_nothing_else(cluster: Cluster, namespace: str, resource: str) -> None:
    """In its own namespace."""
    cluster.kubectl("apply", "-n", namespace, "-f", str(EXAMPLES / "rbac.yaml"))
    account = f"--as=system:serviceaccount:{namespace}:fairlead-ingest"
    assert cluster.kubectl("auth", "can-i", "create", resource, "-n", namespace, account).strip() == "yes"
    assert cluster.kubectl("auth", "can-i", "get", "secrets", "-n", namespace, account, check=False).strip() == "no"
    assert cluster.kubectl("auth", "can-i", "create", resource, "-n", "default", account, check=False).strip() == "no"


def executors(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    found = json.loads(cluster.kubectl("get", "pods", "-n", namespace, "-l", "spark-role=executor", "-o", "json"))
    pods: list[dict[str, Any]] = found["items"]
    return pods


def run_container(cluster: Cluster, pod: dict[str, Any], folder: Path) -> Running:
    """What a kubelet would do, for one Pod of one container."""
    (container,) = pod["spec"]["containers"]
    name = pod["metadata"]["name"]
    fields = {"status.podIP": "127.0.0.1", "metadata.name": name}
    environ = dict(ENVIRON)
    for variable in container["env"]:
        source = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        environ[variable["name"]] = fields[source] if source else variable.get("value", "")
    # Its configuration is mounted from a ConfigMap; this one has nothing in it that an executor needs.
    environ.pop("SPARK_CONF_DIR", None)
    running = start(name, [str(ENTRYPOINT), *container["args"]], folder / f"{name}.log", environ=environ, folder=folder)
    status = json.dumps({"status": {"phase": "Running", "podIP": "127.0.0.1"}})
    namespace = pod["metadata"]["namespace"]
    cluster.kubectl("patch", "pod", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", status)
    return running


@pytest.mark.verify
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_job_runs_with_executors_that_kubernetes_keeps(
    cluster: Cluster, namespace: str, messaging: MessagingService, topic: str, tmp_path: Path
) -> None:
    """The driver asks the API for Pods, their entrypoint brings executors up, and the executors write the files."""
    messaging.publish(topic, [upstream_message(number) for number in range(100)])
    config = tmp_path / "ingest.toml"
    config.write_text(
        f'messaging_url = "{messaging.url}"\nsecurity = "insecure"\ntopics = ["{topic}"]\ntrigger = "available-now"\n'
        f'table = "{tmp_path}/rows"\ncheckpoint = "{tmp_path}/checkpoint"\n'
    )
    conf = {
        "spark.kubernetes.namespace": namespace,
        "spark.kubernetes.container.image": "ghcr.io/example/fairlead-ingest-cluster:0.1.0",
        "spark.executor.instances": "1",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.pyspark.python": sys.executable,
    }
    command = [str(HOME / "bin" / "spark-submit"), "--master", f"k8s://{cluster.server}", "--deploy-mode", "client"]
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    environ = {**ENVIRON, "KUBECONFIG": str(cluster.kubeconfig)}
    driver = start(
        "driver", [*command, program.__file__, "--config", str(config)], tmp_path / "driver.log", environ=environ
    )
    containers: list[Running] = []
    try:
        (pod,) = wait_until(
            "the driver asks for an executor", lambda: executors(cluster, namespace), seconds=SECONDS,
            describe=driver.tail,
        )  # fmt: skip
        containers.append(run_container(cluster, pod, tmp_path))
        status = driver.process.wait(SECONDS)
        assert status == 0, driver.tail() + containers[0].tail()
    finally:
        for each in (driver, *containers):
            each.kill()
    assert sorted(pl.scan_delta(str(tmp_path / "rows")).collect()["sequence"].to_list()) == list(range(100))
    assert "Finished task" in containers[0].log.read_text()
