"""Paths of the Kubernetes-style API."""

from __future__ import annotations

import pytest

from fairlead_edge.objects.presentation import paths
from fairlead_edge.objects.presentation.paths import Documents, Objects


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
    assert paths.parse(path) == meant


@pytest.mark.parametrize("path", ["/", "/other", "/api//pods", "/apis/apps//x", "/api/v1/" + "x" * 2000])
def test_what_means_nothing(path: str) -> None:
    """Answered with 404."""
    assert paths.parse(path) is None
