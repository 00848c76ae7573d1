"""What clients ask before they ask for objects."""

from __future__ import annotations

import pytest

from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.presentation import discovery

VERSIONS = ["v1alpha1", "v1beta2", "v2", "v10", "v1", "v1beta10", "first"]
KINDS = [
    Kind(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True),
    Kind(group="", version="v1", plural="nodes", kind="Node", namespaced=False),
    *(Kind(group="shop.example", version=each, plural="tills", kind="Till", namespaced=True) for each in VERSIONS),
]


def test_core_resources_carry_scope_kind_verbs_and_short_names() -> None:
    """Enough for kubectl get cm."""
    document = discovery.api_resources("", "v1", KINDS)
    assert document is not None and document["groupVersion"] == "v1"
    assert document["resources"][0] == {
        "name": "configmaps",
        "singularName": "configmap",
        "namespaced": True,
        "kind": "ConfigMap",
        "verbs": ["get", "list", "watch"],
        "shortNames": ["cm"],
    }
    assert document["resources"][1]["namespaced"] is False


def test_versions_of_a_group_are_ordered_as_kubernetes_orders_them() -> None:
    """Stable before beta before alpha, newer before older, other names last."""
    group = discovery.api_group("shop.example", KINDS)
    assert group is not None
    assert [each["version"] for each in group["versions"]] == [
        "v10",
        "v2",
        "v1",
        "v1beta10",
        "v1beta2",
        "v1alpha1",
        "first",
    ]
    assert group["preferredVersion"] == {"groupVersion": "shop.example/v10", "version": "v10"}


def test_groups_are_listed_without_the_core() -> None:
    """/apis holds named groups, /api the core."""
    assert [group["name"] for group in discovery.api_groups(KINDS)["groups"]] == ["shop.example"]
    assert discovery.api_versions()["versions"] == ["v1"]


@pytest.mark.parametrize("asked", [("", "v2"), ("shop.example", "v3"), ("unknown", "v1")])
def test_what_is_not_served_is_not_described(asked: tuple[str, str]) -> None:
    """Clients get 404 then."""
    assert discovery.api_resources(*asked, KINDS) is None
    assert discovery.api_group("unknown", KINDS) is None


def test_the_version_names_the_program() -> None:
    """kubectl version shows whom it talks to."""
    assert discovery.server_version("9.9")["gitVersion"] == "v1.36.0+fairlead-edge.9.9"
