"""The rights that the charts give, asked of a real API server: all that a program does, and nothing beside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.kube.charts import NAMESPACE, objects
from tests.support.kube.cluster import Cluster

from fairlead_cli.cluster.hub_role import ServiceAccount
from fairlead_cli.doctor.cluster import installation

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("helm")]
HUB = ServiceAccount(NAMESPACE, "fl-fairlead-hub")
CERTIFICATE_REQUESTS = ("cert-manager.io", "certificaterequests")


@pytest.fixture
def granted(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The roles of a combination, and the namespace they are for."""
    found = [each for each in objects(request.param) if each["apiVersion"].startswith("rbac.")]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": [namespace, *found]})
    cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=listed)
    yield cluster
    only = json.dumps({"apiVersion": "v1", "kind": "List", "items": found})
    cluster.kubectl("delete", "-n", NAMESPACE, "-f", "-", stdin=only)


def may(cluster: Cluster, right: installation.Right, account: ServiceAccount = HUB) -> bool:
    """As the API server decides."""
    path, body = installation.review(right, account)
    answer: dict[str, Any] = json.loads(
        cluster.kubectl("create", "--raw", f"/{path}", "-f", "-", stdin=json.dumps(body))
    )
    return bool(answer["status"]["allowed"])


@pytest.mark.parametrize("granted", ["defaults"], indirect=True)
def test_a_hub_may_do_what_it_does_and_little_else(granted: Cluster) -> None:
    """All that the program asks for; no Secret, nothing of the users' to write, no JoinToken to make."""
    needed = installation.needed(NAMESPACE, [("", "configmaps"), ("", "pods")])
    assert [right for right in needed if not may(granted, right)] == []
    refused = [
        *(installation.Right(verb, "", "secrets", "", NAMESPACE) for verb in ("get", "list", "watch")),
        *(installation.Right(verb, "", "configmaps") for verb in ("create", "update", "patch", "delete")),
        *(installation.Right(verb, "fairlead.dev", "jointokens") for verb in ("create", "update", "patch", "delete")),
        installation.Right("delete", "", "nodes"),
        installation.Right("patch", "", "nodes"),
        installation.Right("get", "coordination.k8s.io", "leases", "", "kube-system"),
        installation.Right("create", *CERTIFICATE_REQUESTS, "", NAMESPACE),
        installation.Right("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
    ]
    assert [str(right) for right in refused if may(granted, right)] == []


@pytest.mark.parametrize("granted", ["cert-manager"], indirect=True)
def test_a_hub_asks_cert_manager_in_its_own_namespace(granted: Cluster) -> None:
    """It makes requests, and reads those; approving and signing are others'."""
    asked = [installation.Right(verb, *CERTIFICATE_REQUESTS, "", NAMESPACE) for verb in ("create", "get", "watch")]
    assert [right for right in asked if not may(granted, right)] == []
    refused = [
        *(
            installation.Right(verb, *CERTIFICATE_REQUESTS, "", NAMESPACE)
            for verb in ("list", "update", "patch", "delete")
        ),
        installation.Right("create", *CERTIFICATE_REQUESTS, "", "default"),
        installation.Right("patch", *CERTIFICATE_REQUESTS, "status", NAMESPACE),
        installation.Right("get", "", "secrets", "", NAMESPACE),
    ]
    assert [str(right) for right in refused if may(granted, right)] == []
