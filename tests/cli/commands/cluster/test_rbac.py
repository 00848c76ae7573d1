"""`fairlead rbac` on a real API server: what it prints lets the hub's account read what rules name, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from tests.support.hubs.hub import sync_rule
from tests.support.kube import written_by_hand
from tests.support.kube.cluster import Cluster

from fairlead_cli.main import build

HUB = "rbac-test:hub"
DEPLOYMENTS = {"apiVersion": "apps/v1", "kind": "Deployment"}
REFERENCED = {"apiVersion": "v1", "kind": "ConfigMap", "select": "referenced"}
UNSERVED = {"apiVersion": "example.com/v1", "kind": "Widget"}
SEES = {"deployments.apps": "yes", "configmaps": "yes", "pods": "yes", "secrets": "no", "services": "no"}


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Cluster]:
    """Definitions, one rule, and the hub's Pod."""
    written_by_hand.install(cluster)
    cluster.kubectl("create", "namespace", "rbac-test")
    cluster.apply(sync_rule("rbac-one", REFERENCED))
    labels = {"app.kubernetes.io/part-of": "fairlead", "app.kubernetes.io/component": "hub"}
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "hub", "namespace": "rbac-test", "labels": labels},
            "spec": {"serviceAccountName": "hub", "containers": [{"name": "hub", "image": "none"}]},
        }
    )
    yield cluster
    cluster.kubectl("delete", "syncrule", "rbac-one")
    cluster.kubectl("delete", "clusterrole,clusterrolebinding", "fairlead-hub-delivered", "--ignore-not-found")
    cluster.kubectl("delete", "namespace", "rbac-test", "--wait=false")
    written_by_hand.remove(cluster)


def run(cluster: Cluster, *words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(build(), ["rbac", "--kubeconfig", str(cluster.kubeconfig), *words])
    return done.exit_code, done.stdout, done.stderr


def test_it_grants_what_rules_name_and_no_more(installed: Cluster, tmp_path: Path) -> None:
    """Rules of the cluster and of a file; Pods, because something is referenced; the account of the hub's Pod."""
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump_all([sync_rule("to-come", DEPLOYMENTS, UNSERVED), {"kind": "ConfigMap"}]))
    code, text, said = run(installed, "-f", str(rules))
    assert (code, said) == (0, "omitted because the API server does not serve it: Widget of example.com/v1\n")
    installed.kubectl("apply", "-f", "-", stdin=text)
    account = "--as=system:serviceaccount:rbac-test:hub"
    for kind, expected in SEES.items():
        assert installed.kubectl("auth", "can-i", "watch", kind, "-A", account, check=False).strip() == expected, kind
    assert installed.kubectl("auth", "can-i", "delete", "configmaps", "-A", account, check=False).strip() == "no"


def test_doctor_says_what_is_beyond_the_rules(installed: Cluster) -> None:
    code, text, _ = run(installed, "-o", "json", "--name", "rbac-wide", "--hub-account", HUB)
    assert code == 0
    role, binding = json.loads(text)["items"]
    role["rules"][0]["resources"].append("secrets")
    installed.apply([role, binding])
    try:
        words = ["doctor", "--cluster", "--kubeconfig", str(installed.kubeconfig), "--hub-account", HUB, "-o", "json"]
        found = json.loads(CliRunner().invoke(build(), words).stdout)["items"]
        [wide] = [each for each in found if each["level"] == "warning" and each["check"] == "rights"]
        assert "rbac-test:hub may read " in wide["message"] and "secrets" in wide["message"]
        assert "fairlead rbac | kubectl apply -f -" in wide["remedy"]
    finally:
        installed.kubectl("delete", "clusterrole,clusterrolebinding", "rbac-wide")


def test_a_file_that_is_none_of_ours(installed: Cluster, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("a: [")
    code, text, said = run(installed, "-f", str(tmp_path / "rules.yaml"), "--hub-account", HUB)
    assert (code, text) == (1, "") and "give SyncRules as YAML or JSON" in said
