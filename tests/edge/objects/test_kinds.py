"""Kinds clients may ask for."""

from __future__ import annotations

from fairlead_edge.objects.kinds import ALWAYS_SERVED, CATEGORIES, Kind, served

TILL = Kind(group="shop.example", version="v2", plural="tills", kind="Till", namespaced=True)


def test_held_kinds_join_them_once() -> None:
    pods = Kind(group="", version="v1", plural="pods", kind="Pod", namespaced=True)
    found = served([TILL, pods])
    assert TILL in found and found.count(pods) == 1 and len(found) == len(ALWAYS_SERVED) + 1


def test_all_means_what_it_means_in_a_cluster() -> None:
    assert CATEGORIES["", "pods"] == CATEGORIES["apps", "deployments"] == ["all"]
    assert CATEGORIES["fairlead.dev", "edgeroutes"] == ["fairlead"]
    assert not {("", "configmaps"), ("", "secrets"), ("", "nodes")} & CATEGORIES.keys()
