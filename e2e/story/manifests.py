"""Objects that the story applies: what is delivered, and by which rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SHOP = "shop"
"""The namespace of what is delivered."""


def rules() -> Sequence[dict[str, Any]]:
    """Everything in the shop goes down, every message up."""
    api = "fairlead.dev/v1alpha1"
    shop = {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [SHOP]}
    routes = {"all": "FROM /messages/* INTO $upstream"}
    storing = {"timeToLiveSecs": 7200}
    return [
        {"apiVersion": api, "kind": "SyncRule", "metadata": {"name": SHOP}, "spec": {"resources": [shop]}},
        {
            "apiVersion": api,
            "kind": "EdgeRoutes",
            "metadata": {"name": "telemetry"},
            "spec": {"schemaVersion": "1.1", "routes": routes, "storeAndForwardConfiguration": storing},
        },
    ]


def menu(soup: str) -> dict[str, Any]:
    """The object that is changed again and again."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "menu", "namespace": SHOP},
        "data": {"soup": soup},
    }
