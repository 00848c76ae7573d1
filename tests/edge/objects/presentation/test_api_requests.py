"""Paths of the Kubernetes-style API."""

from __future__ import annotations

import pytest

from fairlead_edge.objects.presentation import api_requests
from fairlead_edge.objects.presentation.api_requests import ApiError, Documents, Objects


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/api", Documents(legacy=True)),
        ("/apis/", Documents(legacy=False)),
        ("/api/v1", Documents(legacy=True, version="v1")),
        ("/apis/apps", Documents(legacy=False, group="apps")),
        ("/apis/apps/v1", Documents(legacy=False, group="apps", version="v1")),
        ("/api/v1/pods", Objects(group="", version="v1", plural="pods")),
        ("/api/v1/nodes/edge-1", Objects(group="", version="v1", plural="nodes", name="edge-1")),
        ("/api/v1/namespaces", Objects(group="", version="v1", plural="namespaces")),
        ("/api/v1/namespaces/shop", Objects(group="", version="v1", plural="namespaces", name="shop")),
        ("/api/v1/namespaces/shop/pods", Objects(group="", version="v1", plural="pods", namespace="shop")),
        (
            "/api/v1/namespaces/shop/pods/till",
            Objects(group="", version="v1", plural="pods", namespace="shop", name="till"),
        ),
        (
            "/api/v1/namespaces/shop/pods/till/status",
            Objects(group="", version="v1", plural="pods", namespace="shop", name="till", subresource="status"),
        ),
        (
            "/api/v1/namespaces/shop/status",
            Objects(group="", version="v1", plural="namespaces", name="shop", subresource="status"),
        ),
        (
            "/apis/apps/v1/namespaces/node/deployments/status",
            Objects(group="apps", version="v1", plural="deployments", namespace="node", name="status"),
        ),
        ("/apis/shop.example/v2/tills/x", Objects(group="shop.example", version="v2", plural="tills", name="x")),
        (
            "/api/v1/nodes/edge-1/proxy/a/b",
            Objects(group="", version="v1", plural="nodes", name="edge-1", subresource="proxy/a/b"),
        ),
    ],
)
def test_what_a_path_means(path: str, meant: Documents | Objects) -> None:
    """Objects, lists and documents; words such as "node" and "status" are just names."""
    assert api_requests.parse(path) == meant


@pytest.mark.parametrize("path", ["/", "/other", "/api//pods", "/apis/apps//x", "/api/v1/" + "x" * 2000])
def test_what_means_nothing(path: str) -> None:
    """Answered with 404."""
    assert api_requests.parse(path) is None


# ---- refusals in the words Kubernetes clients understand ------------------------------------------


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (400, "BadRequest"),
        (401, "Unauthorized"),
        (404, "NotFound"),
        (405, "MethodNotAllowed"),
        (410, "Expired"),
        (418, "Unknown"),
    ],
)
def test_a_status_object_carries_code_reason_and_message(code: int, reason: str) -> None:
    """kubectl prints the message, clients branch on reason and code."""
    body = api_requests.status(ApiError(code, "because"))
    assert (body["kind"], body["status"], body["code"], body["reason"]) == ("Status", "Failure", code, reason)
    assert body["message"] == "because" and "details" not in body


def test_not_found_names_the_object() -> None:
    """As the API server words it, with details for programs."""
    body = api_requests.status(api_requests.not_found("deployments", "apps", "till"))
    assert body["message"] == 'deployments.apps "till" not found'
    assert body["details"] == {"name": "till", "kind": "deployments", "group": "apps"}
    assert str(api_requests.not_found("pods", "", "a")) == 'pods "a" not found'
