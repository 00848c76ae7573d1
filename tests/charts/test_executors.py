"""`ingest.spark.mode=kubernetes`: what executors are, what the driver may, and who reaches whom."""

from __future__ import annotations

import json
import secrets
import socket
import struct
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.support import pages
from tests.support.kube.charts import CHARTS, COMBINATIONS, NAMESPACE, RELEASE, helm_with, objects, pods
from tests.support.kube.cluster import Cluster
from tests.support.processes import free_ports

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("helm")]
NAME = "executors"
DRIVER = f"system:serviceaccount:{NAMESPACE}:fl-fairlead-ingest"
EXECUTOR = f"system:serviceaccount:{NAMESPACE}:fl-fairlead-ingest-executor"

DRIVER_PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for key, value in json.loads(sys.argv[1]).items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
print("up", flush=True)
sys.stdin.read()
session.stop()
"""
UP_SECONDS = 240
# Type 3 of Spark's protocol: a call, which wants an answer; 4 is an answer, 5 a failure.
CALL = struct.pack(">qbqi", 8 + 1 + 8 + 4 + 8, 3, 1, 8) + b"register"
FAILURE = 5


def one(kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in objects(NAME) if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def template() -> dict[str, Any]:
    held = one("ConfigMap", "fl-fairlead-ingest-executor")["data"]["executor.yaml"]
    read: dict[str, Any] = yaml.safe_load(held)
    return read


def test_executors_may_as_little_as_every_pod_of_ours() -> None:
    """Not root, a root that is read-only, no capability, no token; an account of their own."""
    driver, executor = pods(NAME)["fl-fairlead-ingest"], template()["spec"]
    assert executor["securityContext"] == driver["securityContext"]
    assert executor["containers"][0]["securityContext"] == driver["containers"][0]["securityContext"]
    assert executor["automountServiceAccountToken"] is False
    assert executor["serviceAccountName"] == EXECUTOR.rpartition(":")[2]


def test_executors_reach_topics_and_store_as_the_driver_does() -> None:
    """The same certificate, at the same path; the same variables, the same trust."""
    driver, executor = pods(NAME)["fl-fairlead-ingest"]["containers"][0], template()["spec"]["containers"][0]
    mounts = [{mount["name"]: mount["mountPath"] for mount in each["volumeMounts"]} for each in (driver, executor)]
    for shared in ("tls", "spark", "store-authority"):
        assert mounts[0][shared] == mounts[1][shared]
    assert executor["envFrom"] == driver["envFrom"] == [{"secretRef": {"name": "object-store"}}]
    assert executor["env"] == [each for each in driver["env"] if each["name"] != "SPARK_LOCAL_DIRS"]


def test_placement_is_handed_on_unless_executors_have_their_own() -> None:
    """Tolerations come from the job, labels of nodes from the executors; the template has the last word."""
    spec = template()["spec"]
    assert spec["tolerations"] == [{"key": "batch", "operator": "Exists"}]
    assert spec["nodeSelector"] == {"pool": "spark"}
    assert spec["runtimeClassName"] == "sandboxed"
    (spread,) = spec["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "ingest-executor"
    assert template()["metadata"]["annotations"] == {"example.com/cost": "tables"}


def test_settings_name_files_and_no_secret() -> None:
    """What anyone may read in the ConfigMap."""
    conf = tomllib.loads(one("ConfigMap", "fl-fairlead-ingest")["data"]["ingest.toml"])["spark"]["conf"]
    assert conf["spark.authenticate"] == conf["spark.network.crypto.enabled"] == "true"
    assert conf["spark.authenticate.secret.file"] == "/etc/fairlead/spark/secret"
    assert "spark.authenticate.secret" not in conf
    assert conf["spark.kubernetes.container.image"].endswith("fairlead-ingest-cluster:0.1.0")
    assert (conf["spark.executor.instances"], conf["spark.executor.cores"]) == ("3", "2")
    assert (conf["spark.kubernetes.executor.request.cores"], conf["spark.kubernetes.executor.limit.cores"]) == (
        "500m",
        "2",
    )


@pytest.mark.verify
@pytest.mark.spark
def test_a_stranger_at_the_drivers_ports_is_refused() -> None:
    """With the chart's settings: who shows no secret gets a failure, and is cut off, at both ports."""
    conf = tomllib.loads(one("ConfigMap", "fl-fairlead-ingest")["data"]["ingest.toml"])["spark"]["conf"]
    secured = {key: value for key, value in conf.items() if key.startswith(("spark.authenticate", "spark.network"))}
    # Spark reads it from a file on Kubernetes alone.
    del secured["spark.authenticate.secret.file"]
    rpc, blocks = free_ports(2)
    secured |= {
        "spark.authenticate.secret": secrets.token_hex(32),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.port": str(rpc),
        "spark.driver.blockManager.port": str(blocks),
    }
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER_PROGRAM, json.dumps(secured)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    ) as driver:  # fmt: skip
        assert driver.stdin and driver.stdout
        assert driver.stdout.readline() == "up\n"
        try:
            for port in (rpc, blocks):
                with socket.create_connection(("127.0.0.1", port), timeout=UP_SECONDS) as connection:
                    connection.sendall(CALL)
                    answer = connection.makefile("rb").read()  # until the driver hangs up
                assert answer[8] == FAILURE and b"Unknown challenge" in answer, answer[:200]
        finally:
            driver.stdin.close()
            driver.wait(UP_SECONDS)


def test_users_settings_of_spark_win() -> None:
    """One key changed, the others stay."""
    values = dict(COMBINATIONS[NAME][1])
    values["ingest"] = {**values["ingest"], "config": {"spark": {"conf": {"spark.executor.memory": "7g"}}}}
    text = helm_with(values, "template", RELEASE, str(CHARTS / "fairlead"))
    (config,) = [
        each["data"]["ingest.toml"]
        for each in yaml.safe_load_all(text)
        if each and each["kind"] == "ConfigMap" and "ingest.toml" in each["data"]
    ]
    conf = tomllib.loads(config)["spark"]["conf"]
    assert (conf["spark.executor.memory"], conf["spark.authenticate"]) == ("7g", "true")


def test_a_secret_of_the_users_is_mounted_and_none_is_made() -> None:
    """For charts that are rendered where no cluster is at hand."""
    values = dict(COMBINATIONS[NAME][1])
    values["ingest"] = {**values["ingest"], "spark": {"mode": "kubernetes", "secretName": "ours"}}
    found = list(yaml.safe_load_all(helm_with(values, "template", RELEASE, str(CHARTS / "fairlead"))))
    assert not [each for each in found if each and each["kind"] == "Secret" and "spark" in each["metadata"]["name"]]
    (driver,) = [
        each for each in found if each and each["kind"] == "StatefulSet" and each["metadata"]["name"].endswith("ingest")
    ]
    volumes = {each["name"]: each for each in driver["spec"]["template"]["spec"]["volumes"]}
    assert volumes["spark"]["secret"]["secretName"] == "ours"


def test_the_values_of_the_page_are_taken() -> None:
    """As they stand in the how-to."""
    page = CHARTS.parent / "docs/howto/spark-on-kubernetes.md"
    (block,) = [each for each in pages.blocks(page, page.read_text()) if "spark:" in each.text]
    text = helm_with(yaml.safe_load(block.text), "template", RELEASE, str(CHARTS / "fairlead"))
    assert '"spark.executor.instances" = "4"' in text and "fairlead-ingest-cluster" in text


def test_policies_let_driver_and_executors_at_each_other_and_messaging() -> None:
    """And no one else at the ports of either."""
    driver = one("NetworkPolicy", "fl-fairlead-ingest")["spec"]
    executor = one("NetworkPolicy", "fl-fairlead-ingest-executor")["spec"]
    messaging = one("NetworkPolicy", "fl-fairlead-messaging")["spec"]

    def peers(rules: list[dict[str, Any]], key: str, port: object) -> set[str]:
        return {
            peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
            for rule in rules
            if port in [each["port"] for each in rule["ports"]]
            for peer in rule.get(key, ())
        }

    assert peers(driver["ingress"], "from", "driver") == {"ingest-executor"}
    assert peers(driver["ingress"], "from", "blocks") == {"ingest-executor"}
    assert peers(executor["ingress"], "from", 7079) == {"ingest", "ingest-executor"}
    assert peers(driver["egress"], "to", 7079) == {"ingest-executor"}
    assert peers(executor["egress"], "to", 7078) >= {"ingest"}
    assert peers(executor["egress"], "to", 11015) == {"messaging"}
    assert "ingest-executor" in peers(messaging["ingress"], "from", "rest")
    assert [each["port"] for rule in driver["egress"] for each in rule["ports"] if each["port"] == 6443]


@pytest.fixture
def with_rights(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with the roles of driver and executors."""
    found = [each for each in objects(NAME) if each["kind"] in ("Role", "RoleBinding") and "ingest" in str(each)]
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": found})
    cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=listed)
    yield cluster
    cluster.kubectl("delete", "-n", NAMESPACE, "-f", "-", stdin=listed)


def test_the_driver_may_keep_pods_in_its_namespace_and_nothing_else(with_rights: Cluster) -> None:
    """As the API server decides; executors have no rights at all."""

    def may(account: str, verb: str, resource: str, where: str = NAMESPACE, *more: str) -> bool:
        said = with_rights.kubectl("auth", "can-i", verb, resource, "-n", where, f"--as={account}", *more, check=False)
        return said.strip() == "yes"

    verbs = ("get", "list", "watch", "create", "patch", "delete", "deletecollection")
    assert [verb for verb in verbs if not may(DRIVER, verb, "pods")] == []
    others = ("secrets", "configmaps", "services", "persistentvolumeclaims", "serviceaccounts")
    assert [each for each in others for verb in ("get", "create") if may(DRIVER, verb, each)] == []
    assert not may(DRIVER, "create", "pods", NAMESPACE, "--subresource=exec")
    assert not may(DRIVER, "create", "pods", "default")
    assert [verb for verb in verbs if may(EXECUTOR, verb, "pods")] == []
