"""Which kinds rules name; what is served is asked of a real API server in test_rbac.py."""

from __future__ import annotations

import json
from typing import Any

from fairlead_cli.cluster import hub_role

CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}
SECRETS = {"apiVersion": "v1", "kind": "Secret", "select": "referenced"}


def test_each_once_and_pods_where_something_is_referenced() -> None:
    """Pods say what is referenced, so the hub watches them."""
    rules = [{"spec": {"resources": [CONFIG_MAPS, SECRETS]}}, {"spec": {"resources": [CONFIG_MAPS]}}]
    assert hub_role.named(rules) == {("v1", "ConfigMap"), ("v1", "Secret"), ("v1", "Pod")}


def test_a_rule_that_cannot_be_read_is_in_force_as_it_was() -> None:
    """Its status remembers; what is no text of ours names nothing."""
    kept = {"spec": {"resources": "?"}, "status": {"lastReadable": json.dumps({"resources": [CONFIG_MAPS]})}}
    assert hub_role.named([kept, {"status": {"lastReadable": "{"}}, {"spec": None}]) == {("v1", "ConfigMap")}


def test_kinds_whose_status_nodes_may_report() -> None:
    """Each entry for itself, and only where it says so."""
    rules: list[dict[str, Any]] = [
        {"spec": {"resources": [{**CONFIG_MAPS, "statusFromEdge": True}, SECRETS]}},
        {"spec": {"resources": [{}]}},
    ]
    assert hub_role.reported(rules) == {("v1", "ConfigMap")}
