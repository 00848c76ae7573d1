"""Ingest on Kubernetes by Spark's own backend, on a real API server: what is submitted, and a job with executors.

There is no kubelet here: where a container has to start, the test starts the image's entrypoint with what the Pod says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyspark
import pytest
import yaml
from tests.support.kube import spark_operators
from tests.support.kube.cluster import Cluster
from tests.support.processes import Running, start, wait_until
from tests.support.topics.messaging_service import upstream_message

import fairlead_ingest.__main__ as program

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "kubernetes"
HOME = Path(pyspark.__file__).parent
PROGRAM = "local:///usr/local/lib/python3.11/site-packages/fairlead_ingest/__main__.py"
CONFIG = "/etc/fairlead/config/ingest.toml"
ENTRYPOINT = EXAMPLES.parents[1] / "charts" / "images" / "spark-entrypoint.sh"
ENVIRON = {**os.environ, "SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
SECONDS = 200.0
DRY_RUN = ("apply", "--server-side", "--dry-run=server", "--validate=strict")


@pytest.mark.timeout(600)
def test_spark_submit_makes_the_drivers_pod(cluster, namespace):
    """With image, account, settings, certificates and the store's key, and no right that is not needed; no volume."""
    for name in ("rbac.yaml", "settings.yaml"):
        cluster.kubectl("apply", "-n", namespace, "-f", str(EXAMPLES / name))
    command = [str(HOME / "bin" / "spark-submit"), "--master", f"k8s://{cluster.server}", "--deploy-mode", "cluster"]
    command += ["--properties-file", str(EXAMPLES / "native.conf"), "--conf", f"spark.kubernetes.namespace={namespace}"]
    environ = {**ENVIRON, "KUBECONFIG": str(cluster.kubeconfig)}
    done = subprocess.run(
        [*command, PROGRAM, "--config", CONFIG], env=environ, cwd=EXAMPLES, capture_output=True, text=True,
        timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    pods = json.loads(cluster.kubectl("get", "pods", "-n", namespace, "-l", "spark-role=driver", "-o", "json"))
    (pod,) = pods["items"]
    (container,) = pod["spec"]["containers"]
    assert pod["spec"]["serviceAccountName"] == "fairlead-ingest"
    assert container["image"] == "ghcr.io/example/fairlead-ingest-cluster:0.1.0"
    assert container["args"][-3:] == [PROGRAM, "--config", CONFIG]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert (mounts["/etc/fairlead/tls"], mounts["/etc/fairlead/config"]) == ("tls", "config")
    assert container["envFrom"] == [{"secretRef": {"name": "fairlead-store"}}]
    assert container["securityContext"]["readOnlyRootFilesystem"] and pod["spec"]["securityContext"]["runAsNonRoot"]
    assert not [each for each in pod["spec"]["volumes"] if "persistentVolumeClaim" in each]


def test_the_driver_may_keep_executors_and_nothing_else(cluster, namespace):
    cluster.kubectl("apply", "-n", namespace, "-f", str(EXAMPLES / "rbac.yaml"))
    account = f"--as=system:serviceaccount:{namespace}:fairlead-ingest"

    def may(verb: str, resource: str, where: str) -> str:
        said: str = cluster.kubectl("auth", "can-i", verb, resource, "-n", where, account, check=False)
        return said.strip()

    assert may("create", "pods", namespace) == may("deletecollection", "pods", namespace) == "yes"
    others = ("secrets", "configmaps", "services", "persistentvolumeclaims")
    assert {may(verb, each, namespace) for verb in ("get", "create") for each in others} == {"no"}
    assert may("create", "pods", "default") == "no"


def dry_run(cluster: Cluster, namespace: str, name: str) -> str:
    """What the API server says to an example; a field that the definition does not have is an error."""
    return cluster.kubectl(*DRY_RUN, "-n", namespace, "-f", str(EXAMPLES / name))


@pytest.mark.parametrize("name", ["rbac.yaml", "settings.yaml", "driver.yaml", "executor.yaml"])
def test_the_api_server_takes_the_examples(cluster, namespace, name, tmp_path):
    """Templates too: as Pods, once Spark has filled in image and name."""
    read = list(yaml.safe_load_all((EXAMPLES / name).read_text()))
    for each in read:
        if each["kind"] == "Pod":
            each["metadata"] = {"name": "filled-in"}
            each["spec"]["containers"][0]["image"] = "filled-in"
            # An account is looked for before anything else.
            each["spec"].pop("serviceAccountName", None)
    filled = tmp_path / name
    filled.write_text(yaml.safe_dump_all(read))
    assert dry_run(cluster, namespace, str(filled)).count("serverside-applied") == len(read)


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of this module's own: two thousand kilobytes of definitions are no matter of other tests."""
    definitions = spark_operators.kubeflow()
    if definitions is None:
        pytest.skip(f"{spark_operators.MODULE} is not here and cannot be fetched")
    with Cluster(tmp_path_factory.mktemp("operators")) as found:
        # Too large for the annotation that a client-side apply writes.
        found.kubectl("apply", "--server-side", "-f", str(definitions))
        found.wait_established("sparkapplications.sparkoperator.k8s.io")
        yield found


@pytest.mark.verify
@pytest.mark.process
def test_kubeflows_definition_takes_its_example(operators):
    """The operator's own, of the release that the README names; a misspelt field would be refused."""
    assert "serverside-applied" in dry_run(operators, "default", "spark-operator.yaml")
    text = (EXAMPLES / "spark-operator.yaml").read_text()
    for right, wrong in (("memoryOverhead:", "memoryOverHead:"), ("type: Always", "type: Forever")):
        refused = subprocess.run(
            [str(operators.assets / "kubectl"), *DRY_RUN, "-f", "-"],
            input=text.replace(right, wrong), env={**os.environ, "KUBECONFIG": str(operators.kubeconfig)},
            capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
        assert refused.returncode != 0 and wrong.partition(":")[0 if "Over" in wrong else 2].strip() in refused.stderr


@pytest.mark.verify
@pytest.mark.process
def test_apaches_definition_takes_its_example(operators):
    definition = spark_operators.apache()
    if definition is None:
        pytest.skip(f"name the file with the definition of Apache's operator: {spark_operators.APACHE}")
    operators.kubectl("apply", "--server-side", "-f", str(definition))
    operators.wait_established("sparkapplications.spark.apache.org")
    assert "serverside-applied" in dry_run(operators, "default", "apache-spark-operator.yaml")


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
def test_a_job_runs_with_executors_that_kubernetes_keeps(cluster, namespace, messaging, topic, tmp_path):
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
