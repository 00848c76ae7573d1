"""The hub's role: made of kinds, read back from bindings, and compared with what rules need."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest

from fairlead_cli.cluster import hub_role
from fairlead_cli.cluster.hub_role import ServiceAccount

HUB = ServiceAccount("fairlead", "fairlead-hub")


def test_one_rule_for_each_group_and_no_verb_that_writes() -> None:
    role, binding = hub_role.documents("r", HUB, [("apps", "deployments"), ("", "pods"), ("", "configmaps")])
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch"]},
    ]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "fairlead-hub", "namespace": "fairlead"}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == "r"


def test_what_is_printed_allows_what_rules_need_and_no_more() -> None:
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
    own = [("", "nodes"), ("fairlead.dev", "edgenodes"), ("coordination.k8s.io", "leases"), ("*", "*")]
    assert hub_role.surplus(own, []) == [("*", "*")]


def test_as_kubectl_names_a_kind() -> None:
    assert hub_role.kind_text(("", "pods")) == "pods"
    assert hub_role.kind_text(("apps", "deployments")) == "deployments.apps"


# ---- accounts of hubs ----


ONE, TWO = ServiceAccount("fairlead", "hub"), ServiceAccount("other", "hub")


def test_as_it_is_written() -> None:
    assert hub_role.parse("fairlead:hub") == ONE and hub_role.parse(None) is None


@pytest.mark.parametrize("text", ["hub", ":hub", "fairlead:", "a/b:c"])
def test_anything_else_is_wrong_use(text: str) -> None:
    with pytest.raises(click.UsageError, match="must be NAMESPACE:NAME, as in fairlead:fairlead-hub"):
        hub_role.parse(text)


def test_the_only_one_is_taken() -> None:
    assert hub_role.one_of([ONE]) == ONE
    with pytest.raises(click.ClickException, match="fairlead:hub, other:hub"):
        hub_role.one_of([ONE, TWO])
    with pytest.raises(click.ClickException, match="there is no hub Pod"):
        hub_role.one_of([])


# ---- which kinds rules name; what is served is asked of a real API server in test_rbac.py ----


CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}
SECRETS = {"apiVersion": "v1", "kind": "Secret", "select": "referenced"}


def test_each_once_and_pods_where_something_is_referenced() -> None:
    rules = [{"spec": {"resources": [CONFIG_MAPS, SECRETS]}}, {"spec": {"resources": [CONFIG_MAPS]}}]
    assert hub_role.named(rules) == {("v1", "ConfigMap"), ("v1", "Secret"), ("v1", "Pod")}


def test_a_rule_that_cannot_be_read_is_in_force_as_it_was() -> None:
    kept = {"spec": {"resources": "?"}, "status": {"lastReadable": json.dumps({"resources": [CONFIG_MAPS]})}}
    assert hub_role.named([kept, {"status": {"lastReadable": "{"}}, {"spec": None}]) == {("v1", "ConfigMap")}


def test_kinds_whose_status_nodes_may_report() -> None:
    rules: list[dict[str, Any]] = [
        {"spec": {"resources": [{**CONFIG_MAPS, "statusFromEdge": True}, SECRETS]}},
        {"spec": {"resources": [{}]}},
    ]
    assert hub_role.reported(rules) == {("v1", "ConfigMap")}
