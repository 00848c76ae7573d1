"""Definitions, rights, quotas and certificates: is the cluster set up for this version of Fairlead?"""

from __future__ import annotations

import base64
import binascii
import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from fairlead_cli.cluster import hub_role
from fairlead_cli.cluster.hub_role import ServiceAccount
from fairlead_cli.doctor.device.certificates import judge_one
from fairlead_cli.doctor.examination import Finding, ok, problem, warning
from fairlead_wire.identity import certificate
from fairlead_wire.objects.api_group import GROUP

APPLY: Final = "kubectl apply --server-side -f crds/  (helm upgrade never touches definitions)"
MINOR_MIN: Final = 30
"""Minor version of Kubernetes 1 that introduced selectable fields of custom resources."""


def judge_server(version: Mapping[str, Any]) -> Finding:
    """``version``: the response of ``/version``."""
    shown = str(version.get("gitVersion", "?"))
    digits = "".join(each for each in str(version.get("minor", "")) if each.isdigit())
    if str(version.get("major")) == "1" and digits and int(digits) < MINOR_MIN:
        text = f"the API server is {shown}; selectable fields of our kinds need 1.{MINOR_MIN}"
        return problem("api", text, f"upgrade Kubernetes to 1.{MINOR_MIN} or newer")
    return ok("api", f"the API server is {shown}")


def judge_definitions(wanted: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """``wanted`` are the definitions of this program's version, ``found`` those of the API server."""
    present = {each["metadata"]["name"]: each for each in found}
    for each in wanted:
        name = each["metadata"]["name"]
        check = f"definition.{each['spec']['names']['plural']}"
        if name not in present:
            yield problem(check, f"{name} is not installed", APPLY)
        else:
            yield _compared(check, name, each, present[name])


def _compared(check: str, name: str, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> Finding:
    [ours] = wanted["spec"]["versions"]
    served = {each["name"]: each for each in found["spec"].get("versions") or () if each.get("served")}
    if ours["name"] not in served:
        text = f"{name} serves {', '.join(served) or 'no version'}, but this program needs {ours['name']}"
        return problem(check, text, APPLY)
    conditions = (found.get("status") or {}).get("conditions") or []
    refused = [each for each in conditions if each.get("type") in ("Established", "NamesAccepted")]
    bad = next((each for each in refused if each.get("status") != "True"), None)
    if bad is not None:
        text = f"{name} is not {bad['type']}: {bad.get('message') or bad.get('reason') or 'it is new'}"
        return problem(check, text, "wait a moment; if another definition uses the same name, remove it there")
    theirs = served[ours["name"]]
    if fields(theirs) != fields(ours):
        missing = sorted(fields(ours) - fields(theirs))
        more = sorted(fields(theirs) - fields(ours))
        text = f"{name} differs from this release: " + "; ".join(
            [*([f"it lacks {missing[0]}"] if missing else []), *([f"it also has {more[0]}"] if more else [])]
        )
        # The API server silently drops values of a missing field; an additional field does no harm.
        return (problem if missing else warning)(check, text, APPLY if missing else "use programs of one release")
    return ok(check, f"{name} is installed and matches this program ({ours['name']})")


def fields(version: Mapping[str, Any]) -> frozenset[str]:
    """The paths of all fields of one version's schema."""
    return frozenset(_paths(((version.get("schema") or {}).get("openAPIV3Schema")) or {}, ""))


def _paths(schema: Mapping[str, Any], at: str) -> Iterator[str]:
    for name, below in (schema.get("properties") or {}).items():
        yield f"{at}.{name}"
        yield from _paths(below, f"{at}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _paths(schema[key], f"{at}[]")


RBAC: Final = "fairlead rbac | kubectl apply -f -"
WATCHED: Final = ("get", "list", "watch")
RECORDS: Final = ("objectsyncs", "clusterobjectsyncs", "edgenodes")
REVIEWS = (("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews"))
"""The permission to send messages to modules."""
OURS: Final = ".fairlead.dev"
NEARLY: Final = Decimal("0.9")
_UNITS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
PUBLIC: Final = ("tls.crt", "ca.crt", "link.crt")


# ── rights ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Right(msgspec.Struct, frozen=True):
    """One verb on one resource; ``namespace`` "" means all namespaces, or a cluster-scoped resource."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.on}"

    @property
    def on(self) -> str:
        """What it is a right on."""
        name = "/".join(filter(None, (self.resource, self.subresource)))
        group = f".{self.group}" if self.group else ""
        return f"{name}{group}" + (f" in {self.namespace}" if self.namespace else "")


def needed(lease_namespace: str, delivered: Iterable[tuple[str, str]]) -> list[Right]:
    """The permissions a hub needs; ``delivered`` are the kinds (group, plural) in SyncRules."""
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


def judge_rights(answers: Mapping[Right, bool], account: ServiceAccount | None) -> Iterator[Finding]:
    """One finding for all permissions that are granted, and one for all that are missing, with the account."""
    whose = account.user if account else "this kubeconfig's user"
    denied: dict[str, list[str]] = {}
    for right, allowed in answers.items():
        if not allowed:
            denied.setdefault(right.on, []).append(right.verb)
    if denied:
        count, missing = sum(map(len, denied.values())), "; ".join(f"{','.join(denied[on])} {on}" for on in denied)
        shows = f"kubectl auth can-i --list{f' --as={account.user}' if account else ''}"
        grant = (
            f"{shows} lists its permissions; grant the missing ones in the hub's ClusterRole,"
            f" those for kinds in SyncRules with: {RBAC}"
        )
        remedy = grant if account else f"check the hub's own account with --hub-account NAMESPACE:NAME; {grant}"
        yield problem(
            "rights", f"{whose} lacks {count} of the {len(answers)} permissions that a hub needs: {missing}", remedy
        )
    else:
        yield ok("rights", f"{whose} has all {len(answers)} permissions that a hub needs")


def judge_surplus(account: ServiceAccount, surplus: Iterable[tuple[str, str]]) -> Finding:
    """Warn if the account may read Secrets, or everything, in all namespaces although no rule names them."""
    found = list(surplus)
    names = ", ".join(map(hub_role.kind_text, found))
    if any("secrets" in each or hub_role.ANY in each for each in found):
        text = f"{account.user} may read {names}, which no SyncRule names"
        remedy = (
            "remove it from hub.resources in the chart's values; to grant what"
            " rules need: fairlead rbac | kubectl apply -f -"
        )
        return warning("rights", text, remedy)
    if found:
        return ok("rights", f"{account.user} may also read {names}, which no SyncRule names")
    return ok("rights", f"{account.user} may read only the kinds that SyncRules name")


# ── quotas ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def judge_quotas(quotas: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """Each resource of each quota that is nearly or fully used; ObjectSyncs are created by the hub."""
    count, bad = 0, 0
    for quota in quotas:
        count += 1
        for found in _judge_quota(quota):
            bad += 1
            yield found
    if not bad:
        yield ok(
            "quotas", f"{count} ResourceQuotas, none of them nearly used up" if count else "there are no ResourceQuotas"
        )


def _judge_quota(quota: Mapping[str, Any]) -> Iterator[Finding]:
    status = quota.get("status") or {}
    name = f"{quota['metadata'].get('namespace', '')}/{quota['metadata']['name']}"
    for resource, hard in sorted((status.get("hard") or {}).items()):
        used = (status.get("used") or {}).get(resource, "0")
        limit, taken = amount(hard), amount(used)
        if limit is None or taken is None or taken < limit * NEARLY:
            continue
        if not limit and not resource.endswith(OURS):
            continue  # a limit of 0 forbids a kind, such as LoadBalancers, on purpose
        text = f"ResourceQuota {name}: {used} of {hard} {resource} are used"
        namespace = quota["metadata"].get("namespace", "")
        remedy = f"raise it: kubectl -n {namespace} edit resourcequota {quota['metadata']['name']}"
        full = taken >= limit
        yield (problem if full else warning)(
            "quotas", f"{text}; {'nothing more' if full else 'little more'} fits", remedy
        )


def amount(quantity: Any) -> Decimal | None:
    """A Kubernetes quantity such as ``1500m``, ``2Gi`` or ``10``; None if it is not one."""
    text = str(quantity)
    number = text.rstrip("KMGTPEkinum")
    unit = text[len(number) :]
    try:
        if unit in _BINARY:
            return Decimal(number) * Decimal(1024 ** _BINARY[unit])
        return Decimal(number).scaleb(_UNITS[unit])
    except (InvalidOperation, KeyError):
        return None


# ── certificates in Secrets ───────────────────────────────────────────────────────────────────────────────────────────


def judge_secrets(secrets: Iterable[Mapping[str, Any]], now: datetime.datetime) -> Iterator[Finding]:
    """One finding for each certificate that expires soon or has expired; one for all the others."""
    good = bad = 0
    for secret in secrets:
        name = f"Secret {secret['metadata'].get('namespace', '')}/{secret['metadata']['name']}"
        for key in PUBLIC:
            if key not in (secret.get("data") or {}):
                continue
            found = _judge_secret(f"{key} of {name}", secret["data"][key], now)
            if found.level == "ok":
                good += 1
            else:
                bad += 1
                yield found
    if good:
        yield ok(
            "certificates", f"{good} certificates in Secrets of this installation are valid and do not expire soon"
        )
    elif not bad:
        yield ok("certificates", "no Secret of this installation contains a certificate")


def _judge_secret(where: str, text: str, now: datetime.datetime) -> Finding:
    try:
        one = certificate.read(base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error) as error:
        return problem("certificates", f"{where} cannot be read: {error}", "reissue it")
    return judge_one("certificates", where, one, now)
