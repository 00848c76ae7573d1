"""The cluster side against a real API server: nothing installed, definitions there, rights missing, quotas used up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.hubs.hub import CRDS, sync_rule
from tests.support.kube.cluster import Cluster
from tests.support.processes import free_ports, wait_until

from fairlead_cli.main import build


def doctor(cluster: Cluster, *words: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    command = ["doctor", "--cluster", "--kubeconfig", str(cluster.kubeconfig), "-o", "json", *words]
    shown = CliRunner().invoke(build(), command)
    found: dict[str, list[dict[str, Any]]] = {}
    for each in json.loads(shown.stdout)["items"]:
        found.setdefault(each["check"], []).append(each)
    return shown.exit_code, found


@pytest.mark.kube
@pytest.mark.verify
def test_nothing_is_installed_then_definitions_are(tmp_path: Path) -> None:
    """A cluster of its own: the shared one has our definitions already."""
    with Cluster(tmp_path) as cluster:
        code, found = doctor(cluster)
        assert code == 1
        assert found["definition.edgenodes"][0]["message"] == "edgenodes.fairlead.dev is not installed"
        assert found["api"][0]["level"] == "ok" and found["hub.lease"][0]["level"] == "problem"
        cluster.apply(CRDS)
        cluster.wait_established("syncrules.fairlead.dev", "edgenodes.fairlead.dev", "edgeroutes.fairlead.dev")
        _, found = doctor(cluster)
        installed = [each for name, each in found.items() if name.startswith("definition.")]
        assert len(installed) == 6 and all(each[0]["level"] == "ok" for each in installed), installed
        assert found["rights"][0]["level"] == "ok"

        # A service account without any right, a rule of a kind that is not granted, a quota that is used up.
        cluster.apply(sync_rule("all", {"apiVersion": "v1", "kind": "ConfigMap"}))
        hard = {"spec": {"hard": {"configmaps": "1"}}}
        cluster.apply(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, **hard}
        )
        status = {"status": {"hard": {"configmaps": "1"}, "used": {"configmaps": "1"}}}
        cluster.kubectl("patch", "resourcequota", "q", "--subresource=status", "--type=merge", "-p", json.dumps(status))
        code, found = doctor(
            cluster, "--hub-account", "default:nobody", "--hub", f"http://127.0.0.1:{free_ports(1)[0]}"
        )
        denied = found["rights"][0]["message"]
        assert denied.startswith("system:serviceaccount:default:nobody lacks ") and len(found["rights"]) <= 2
        assert "get,list,watch configmaps" in denied and "get,list,watch syncrules.fairlead.dev" in denied
        assert found["syncrule"][0]["message"] == "SyncRule all has not been evaluated by a hub yet"
        assert "nothing more fits" in found["quotas"][0]["message"]
        assert "does not respond: Connection refused" in found["hub.ready"][0]["message"]

        cluster.kubectl("delete", "crd", "edgenodes.fairlead.dev")
        wait_until(
            "it is gone", lambda: "problem" in doctor(cluster)[1]["definition.edgenodes"][0]["level"], seconds=60
        )
