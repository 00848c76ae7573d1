"""Kinds clients may ask for."""

from __future__ import annotations

from fairlead_edge.objects.kinds import ALWAYS_SERVED, CATEGORIES, SHORT_NAMES, Kind, served

TILL = Kind(group="shop.example", version="v2", plural="tills", kind="Till", namespaced=True)


def test_core_kinds_are_served_before_anything_is_held() -> None:
    """kubectl get pods on a new node answers "No resources found", not an unknown type."""
    assert {"pods", "configmaps", "secrets", "nodes"} <= {kind.plural for kind in served([])}
    assert served([]) == sorted(ALWAYS_SERVED)


def test_held_kinds_join_them_once() -> None:
    """A kind that is both known and held is listed once, as it was received."""
    pods = Kind(group="", version="v1", plural="pods", kind="Pod", namespaced=True)
    found = served([TILL, pods])
    assert TILL in found and found.count(pods) == 1 and len(found) == len(ALWAYS_SERVED) + 1


def test_short_names_are_those_people_type() -> None:
    """cm, po, deploy."""
    assert SHORT_NAMES["", "configmaps"] == ["cm"]
    assert SHORT_NAMES["apps", "deployments"] == ["deploy"]
    assert TILL.api_version == "shop.example/v2"


def test_all_means_what_it_means_in_a_cluster() -> None:
    """Workloads, not ConfigMaps and Secrets."""
    assert CATEGORIES["", "pods"] == CATEGORIES["apps", "deployments"] == ["all"]
    assert CATEGORIES["fairlead.dev", "edgeroutes"] == ["fairlead"]
    assert not {("", "configmaps"), ("", "secrets"), ("", "nodes")} & CATEGORIES.keys()
