"""Paths of the Kubernetes-style API."""

from __future__ import annotations

from functools import partial

import pytest

from fairlead_edge.objects.presentation import api_requests
from fairlead_edge.objects.presentation.api_requests import ApiError, DiscoveryRequest, Objects

core = partial(Objects, group="", version="v1")


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/api", DiscoveryRequest(legacy=True)),
        ("/apis/", DiscoveryRequest(legacy=False)),
        ("/api/v1", DiscoveryRequest(legacy=True, version="v1")),
        ("/apis/apps", DiscoveryRequest(legacy=False, group="apps")),
        ("/apis/apps/v1", DiscoveryRequest(legacy=False, group="apps", version="v1")),
        ("/api/v1/pods", core(plural="pods")),
        ("/api/v1/nodes/edge-1", core(plural="nodes", name="edge-1")),
        ("/api/v1/namespaces", core(plural="namespaces")),
        ("/api/v1/namespaces/shop", core(plural="namespaces", name="shop")),
        ("/api/v1/namespaces/shop/pods", core(plural="pods", namespace="shop")),
        ("/api/v1/namespaces/shop/pods/till", core(plural="pods", namespace="shop", name="till")),
        (
            "/api/v1/namespaces/shop/pods/till/status",
            core(plural="pods", namespace="shop", name="till", subresource="status"),
        ),
        ("/api/v1/namespaces/shop/status", core(plural="namespaces", name="shop", subresource="status")),
        (
            "/apis/apps/v1/namespaces/node/deployments/status",
            Objects(group="apps", version="v1", plural="deployments", namespace="node", name="status"),
        ),
        ("/apis/shop.example/v2/tills/x", Objects(group="shop.example", version="v2", plural="tills", name="x")),
        ("/api/v1/nodes/edge-1/proxy/a/b", core(plural="nodes", name="edge-1", subresource="proxy/a/b")),
    ],
)
def test_what_a_path_means(path: str, meant: DiscoveryRequest | Objects) -> None:
    assert api_requests.parse(path) == meant


@pytest.mark.parametrize("path", ["/", "/other", "/api//pods", "/apis/apps//x", "/api/v1/" + "x" * 2000])
def test_what_means_nothing(path: str) -> None:
    assert api_requests.parse(path) is None


# ---- refusals in the words Kubernetes clients understand ------------------------------------------


@pytest.mark.parametrize(("code", "reason"), [(404, "NotFound"), (418, "Unknown")])
def test_a_status_object_carries_code_reason_and_message(code: int, reason: str) -> None:
    """kubectl prints the message, clients branch on reason and code."""
    body = api_requests.status(ApiError(code, "because"))
    assert (body["kind"], body["status"], body["code"], body["reason"]) == ("Status", "Failure", code, reason)
    assert body["message"] == "because" and "details" not in body


def test_not_found_names_the_object() -> None:
    body = api_requests.status(api_requests.not_found("deployments", "apps", "till"))
    assert body["message"] == 'deployments.apps "till" not found'
    assert body["details"] == {"name": "till", "kind": "deployments", "group": "apps"}
    assert str(api_requests.not_found("pods", "", "a")) == 'pods "a" not found'
