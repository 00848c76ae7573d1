"""May the hub do what it must?  Asked of the API server itself, one review for each right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from fairlead_cli.cluster import hub_role
from fairlead_cli.cluster.hub_role import ServiceAccount
from fairlead_cli.doctor.finding import Finding, ok, problem, warning
from fairlead_wire.objects.api_group import GROUP

WATCHED: Final = ("get", "list", "watch")
RECORDS: Final = ("objectsyncs", "clusterobjectsyncs", "edgenodes")


REVIEWS = (("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews"))
"""Who may send messages to modules."""


class Right(msgspec.Struct, frozen=True):
    """One verb on one resource; ``namespace`` "" is all of them, or none."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        name = "/".join(filter(None, (self.resource, self.subresource)))
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {name}{group}" + (f" in {self.namespace}" if self.namespace else "")


def needed(lease_namespace: str, delivered: Iterable[tuple[str, str]]) -> list[Right]:
    """What a hub does; ``delivered`` are the kinds (group, plural) that SyncRules name."""
    rights = [Right(verb, GROUP, name) for name in ("syncrules", "edgeroutes", "jointokens") for verb in WATCHED]
    rights += [Right(verb, GROUP, name) for name in RECORDS for verb in (*WATCHED, "create", "delete")]
    rights.append(Right("patch", GROUP, "edgenodes"))
    rights += [Right("patch", GROUP, name, "status") for name in (*RECORDS, "syncrules", "edgeroutes", "jointokens")]
    rights += [Right(verb, "", "nodes") for verb in WATCHED]
    rights += [Right(verb, "", "events") for verb in ("create", "patch")]
    rights += [Right("create", group, plural) for group, plural in REVIEWS]
    rights += [
        Right(verb, "coordination.k8s.io", "leases", "", lease_namespace) for verb in ("get", "create", "update")
    ]
    rights += [Right(verb, group, plural) for group, plural in sorted(set(delivered)) for verb in WATCHED]
    return list(dict.fromkeys(rights))


def review(right: Right, account: ServiceAccount | None) -> tuple[str, dict[str, Any]]:
    """(path, document) to post."""
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
        "subresource": right.subresource,
        "namespace": right.namespace,
    }
    root = "apis/authorization.k8s.io/v1"
    spec: dict[str, Any] = {"resourceAttributes": attributes}
    if account is None:
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
        return f"{root}/selfsubjectaccessreviews", body
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{account.namespace}", "system:authenticated"]
    spec |= {"user": account.user, "groups": groups}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return f"{root}/subjectaccessreviews", body


def judge(answers: Mapping[Right, bool], account: ServiceAccount | None) -> Iterator[Finding]:
    """One finding for all that is allowed, one for each that is not."""
    whose = account.user if account else "this kubeconfig's user"
    denied = [right for right, allowed in answers.items() if not allowed]
    for right in denied:
        remedy = "grant it in the hub's ClusterRole; kinds of SyncRules: fairlead rbac | kubectl apply -f -"
        yield problem("rights", f"{whose} may not {right}, which a hub needs", remedy)
    if not denied:
        yield ok("rights", f"{whose} may do all {len(answers)} things a hub does")


def judge_surplus(account: ServiceAccount, surplus: Iterable[tuple[str, str]]) -> Finding:
    """What the account may read in every namespace though no rule names it: Secrets, or anything, are a warning."""
    found = list(surplus)
    names = ", ".join(map(hub_role.shown, found))
    if any("secrets" in each or hub_role.ANY in each for each in found):
        text = f"{account.user} may read {names}, which no SyncRule names"
        remedy = (
            "take it out of hub.resources in the chart's values; what rules need: fairlead rbac | kubectl apply -f -"
        )
        return warning("rights", text, remedy)
    if found:
        return ok("rights", f"{account.user} may also read {names}, which no SyncRule names")
    return ok("rights", f"{account.user} may read what SyncRules name, and no other kind")
