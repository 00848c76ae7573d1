"""Rights: which, how they are asked for, and what is denied."""

from __future__ import annotations

from fairlead_cli.cluster.hub_role import ServiceAccount
from fairlead_cli.doctor.cluster.installation import Right, judge_rights, judge_surplus, needed, review


def test_what_a_hub_needs() -> None:
    """Its own kinds, the Lease in its namespace, and what rules name; each once."""
    found = needed("fairlead", [("", "configmaps"), ("", "nodes")])
    assert Right("watch", "", "configmaps") in found and len(set(found)) == len(found)
    assert str(Right("patch", "fairlead.dev", "edgenodes", "status")) == "patch edgenodes/status.fairlead.dev"
    assert "update leases.coordination.k8s.io in fairlead" in map(str, found)


def test_for_whom() -> None:
    """For ourselves, or for a service account."""
    path, body = review(Right("get", "", "nodes"), None)
    assert path.endswith("/selfsubjectaccessreviews") and "user" not in body["spec"]
    path, body = review(Right("get", "", "nodes"), ServiceAccount("fairlead", "hub"))
    assert path.endswith("/subjectaccessreviews") and body["spec"]["user"] == "system:serviceaccount:fairlead:hub"


def test_each_denial_is_a_finding() -> None:
    """Allowed ones are one together."""
    one, two = Right("get", "", "nodes"), Right("watch", "", "pods")
    [found] = judge_rights({one: True, two: False}, None)
    assert found.level == "problem" and "this kubeconfig's user may not watch pods" in found.message
    assert [each.level for each in judge_rights({one: True, two: True}, ServiceAccount("a", "b"))] == ["ok"]


def test_rights_beyond_the_rules() -> None:
    """Secrets or anything at all are worth a warning; another kind is said."""
    account = ServiceAccount("a", "b")
    assert (
        judge_surplus(account, []).message
        == "system:serviceaccount:a:b may read what SyncRules name, and no other kind"
    )
    assert (judge_surplus(account, [("", "pods")]).level, judge_surplus(account, [("", "secrets")]).level) == (
        "ok",
        "warning",
    )
    assert judge_surplus(account, [("*", "*")]).level == "warning"
