"""The hub's role: made of kinds, read back from bindings, and compared with what rules need."""

from __future__ import annotations

from typing import Any

from fairlead_cli.cluster import hub_role
from fairlead_cli.cluster.hub_role import ServiceAccount

HUB = ServiceAccount("fairlead", "fairlead-hub")


def test_one_rule_for_each_group_and_no_verb_that_writes() -> None:
    """Sorted, so that the same rules print the same text."""
    role, binding = hub_role.documents("r", HUB, [("apps", "deployments"), ("", "pods"), ("", "configmaps")])
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch"]},
    ]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "fairlead-hub", "namespace": "fairlead"}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == "r"


def test_what_is_printed_allows_what_rules_need_and_no_more() -> None:
    """Read back, nothing is left over."""
    kinds = {("apps", "deployments"), ("", "secrets")}
    role, binding = hub_role.documents("r", HUB, kinds)
    may = hub_role.readable(HUB, [binding], [role])
    assert may == kinds and hub_role.surplus(may, kinds) == []
    assert hub_role.surplus(may, [("apps", "deployments")]) == [("", "secrets")]
    assert hub_role.readable(ServiceAccount("fairlead", "other"), [binding], [role]) == set()


def test_the_status_that_nodes_may_report_is_patched_and_nothing_else_is() -> None:
    role, binding = hub_role.documents("r", HUB, [("apps", "deployments"), ("", "pods")], [("apps", "deployments")])
    assert role["rules"][-1] == {"apiGroups": ["apps"], "resources": ["deployments/status"], "verbs": ["patch"]}
    assert hub_role.readable(HUB, [binding], [role]) == {("apps", "deployments"), ("", "pods")}


def bound(subject: dict[str, str], **rule: Any) -> set[tuple[str, str]]:
    role = {"metadata": {"name": "r"}, "rules": [rule]}
    binding = {"roleRef": {"name": "r"}, "subjects": [subject]}
    return hub_role.readable(HUB, [binding], [role])


def test_what_counts_as_reading() -> None:
    """Any of three verbs, or all; not single objects, not subresources, not the right to write."""
    account = {"kind": "ServiceAccount", "namespace": "fairlead", "name": "fairlead-hub"}
    secrets = {"apiGroups": [""], "resources": ["secrets"]}
    assert bound(account, **secrets, verbs=["watch"]) == bound(account, **secrets, verbs=["*"]) == {("", "secrets")}
    assert bound({"kind": "User", "name": HUB.user}, **secrets, verbs=["get"]) == {("", "secrets")}
    for group in ("system:serviceaccounts", "system:serviceaccounts:fairlead", "system:authenticated"):
        assert bound({"kind": "Group", "name": group}, **secrets, verbs=["get"]) == {("", "secrets")}
    for group in ("system:serviceaccounts:other", "system:masters", "system:unauthenticated", ""):
        assert bound({"kind": "Group", "name": group}, **secrets, verbs=["get"]) == set()
    assert bound(account, **secrets, verbs=["create"]) == set()
    assert bound(account, **secrets, verbs=["get"], resourceNames=["one"]) == set()
    assert bound(account, apiGroups=[""], resources=["pods/log"], verbs=["get"]) == set()
    assert bound(account, nonResourceURLs=["/metrics"], verbs=["get"]) == set()


def test_its_own_kinds_are_no_surplus() -> None:
    """What a hub needs whatever rules say."""
    own = [("", "nodes"), ("fairlead.dev", "edgenodes"), ("coordination.k8s.io", "leases"), ("*", "*")]
    assert hub_role.surplus(own, []) == [("*", "*")]


def test_as_kubectl_names_a_kind() -> None:
    """Plural and group."""
    assert [hub_role.shown(("", "pods")), hub_role.shown(("apps", "deployments"))] == ["pods", "deployments.apps"]
