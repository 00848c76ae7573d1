"""Definitions: not installed, of another version, of another release, as they should be."""

from __future__ import annotations

import base64
import copy
import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.support.joining.pki import Authority

from fairlead_cli.cluster.hub_role import ServiceAccount
from fairlead_cli.doctor.cluster import installation
from fairlead_cli.doctor.cluster.installation import (
    Right,
    amount,
    judge_quotas,
    judge_rights,
    judge_secrets,
    judge_surplus,
    needed,
    review,
)
from fairlead_hub.cluster.custom_resources import definitions as ours

ONE = next(each for each in ours.ALL if each.kind == "EdgeNode").document()


def judged(found: list[dict[str, Any]]) -> tuple[str, str]:
    [finding] = installation.judge_definitions([ONE], found)
    return finding.level, finding.message


def test_installed_and_missing() -> None:
    assert judged([ONE])[0] == "ok"
    assert judged([]) == ("problem", "edgenodes.fairlead.dev is not installed")


def test_other_versions_and_releases() -> None:
    """A field the API server would drop is a problem; one more there is a warning."""
    other, older, newer, taken = (copy.deepcopy(ONE) for _ in range(4))
    other["spec"]["versions"][0]["name"] = "v1"
    assert "serves v1, but this program needs v1alpha1" in judged([other])[1]
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["paused"]
    assert judged([older]) == ("problem", "edgenodes.fairlead.dev differs from this release: it lacks .status.paused")
    newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["more"] = {"type": "string"}
    assert judged([newer])[0] == "warning"
    taken["status"] = {"conditions": [{"type": "NamesAccepted", "status": "False", "message": "enode is taken"}]}
    assert judged([taken]) == ("problem", "edgenodes.fairlead.dev is not NamesAccepted: enode is taken")


@pytest.mark.parametrize(("minor", "level"), [("29+", "problem"), ("32", "ok"), ("", "ok")])
def test_the_server(minor: str, level: str) -> None:
    assert installation.judge_server({"gitVersion": "v1.x", "major": "1", "minor": minor}).level == level


# ---- rights ----


def test_what_a_hub_needs() -> None:
    """Its own kinds, the Lease in its namespace, and what rules name; each once."""
    found = needed("fairlead", [("", "configmaps"), ("", "nodes")])
    assert Right("watch", "", "configmaps") in found and len(set(found)) == len(found)
    assert str(Right("patch", "fairlead.dev", "edgenodes", "status")) == "patch edgenodes/status.fairlead.dev"
    assert "update leases.coordination.k8s.io in fairlead" in map(str, found)


def test_for_whom() -> None:
    path, body = review(Right("get", "", "nodes"), None)
    assert path.endswith("/selfsubjectaccessreviews") and "user" not in body["spec"]
    path, body = review(Right("get", "", "nodes"), ServiceAccount("fairlead", "hub"))
    assert path.endswith("/subjectaccessreviews") and body["spec"]["user"] == "system:serviceaccount:fairlead:hub"


def test_each_denial_is_a_finding() -> None:
    one, two = Right("get", "", "nodes"), Right("watch", "", "pods")
    [found] = judge_rights({one: True, two: False}, None)
    assert found.level == "problem"
    assert found.message == "this kubeconfig's user lacks 1 of the 2 permissions that a hub needs: watch pods"
    assert [each.level for each in judge_rights({one: True, two: True}, ServiceAccount("a", "b"))] == ["ok"]


def test_who_may_do_nothing_gets_one_finding() -> None:
    """With every right that is missing, by resource, the account, and the command that shows what it has."""
    rights = needed("fairlead", [("apps", "deployments")])
    [found] = judge_rights(dict.fromkeys(rights, False), ServiceAccount("fairlead", "hub"))
    count = len(rights)
    assert found.message.startswith(
        f"system:serviceaccount:fairlead:hub lacks {count} of the {count} permissions that a hub"
    )
    assert "; get,list,watch deployments.apps" in found.message and "get,create,update leases" in found.message
    assert "patch edgenodes/status.fairlead.dev; " in found.message
    assert found.remedy.startswith("kubectl auth can-i --list --as=system:serviceaccount:fairlead:hub lists its")
    [found] = judge_rights(dict.fromkeys(rights, False), None)
    assert found.remedy.startswith("check the hub's own account with --hub-account NAMESPACE:NAME; kubectl auth can-i")


def test_rights_beyond_the_rules() -> None:
    """Secrets or anything at all are worth a warning; another kind is said."""
    account = ServiceAccount("a", "b")
    assert judge_surplus(account, []).message == "system:serviceaccount:a:b may read only the kinds that SyncRules name"
    assert (judge_surplus(account, [("", "pods")]).level, judge_surplus(account, [("", "secrets")]).level) == (
        "ok",
        "warning",
    )
    assert judge_surplus(account, [("*", "*")]).level == "warning"


# ---- resourceQuotas ----


@pytest.mark.parametrize(
    ("text", "value"), [("10", "10"), ("1500m", "1.5"), ("2Ki", "2048"), ("1G", "1e9"), ("x", None), ("", None)]
)
def test_quantities(text: str, value: str | None) -> None:
    assert amount(text) == (None if value is None else Decimal(value))


def test_what_is_used_up() -> None:
    status = {
        "hard": {"pods": "10", "memory": "1Gi", "cpu": "4"},
        "used": {"pods": "10", "memory": "950Mi", "cpu": "1"},
    }
    found = list(judge_quotas([{"metadata": {"namespace": "shop", "name": "q"}, "status": status}]))
    assert [(each.level, each.message.split(": ")[1]) for each in found] == [
        ("warning", "950Mi of 1Gi memory are used; little more fits"),
        ("problem", "10 of 10 pods are used; nothing more fits"),
    ]
    assert [each.level for each in judge_quotas([])] == ["ok"]


def test_what_is_forbidden_is_not_used_up() -> None:
    """Shared clusters set limits of 0, for example for LoadBalancers."""
    status = {"hard": {"services.loadbalancers": "0", "pods": "10"}, "used": {"services.loadbalancers": "0"}}
    assert [each.level for each in judge_quotas([{"metadata": {"name": "q"}, "status": status}])] == ["ok"]
    ours = {"hard": {"count/objectsyncs.fairlead.dev": "0"}, "used": {"count/objectsyncs.fairlead.dev": "0"}}
    assert [each.level for each in judge_quotas([{"metadata": {"name": "q"}, "status": ours}])] == ["problem"]


# ---- certificates in Secrets ----


def test_life(tmp_path: Path) -> None:
    """Good ones are counted, the ended and the unreadable are named; the key is not looked at."""
    authority = Authority(tmp_path)
    old = authority.issue("old", valid=datetime.timedelta(seconds=-1))
    data = {
        "ca.crt": base64.b64encode(authority.certificate.read_bytes()).decode(),
        "tls.crt": base64.b64encode(old.certificate.read_bytes()).decode(),
        "link.crt": "nonsense",
        "tls.key": "never read",
    }
    secret = {"metadata": {"namespace": "fairlead", "name": "hub"}, "data": data}
    found = list(judge_secrets([secret], datetime.datetime.now(datetime.UTC)))
    assert [each.level for each in found] == ["problem", "problem", "ok"]
    assert "tls.crt of Secret fairlead/hub expired on" in found[0].message
    assert found[2].message.startswith("1 certificates")
