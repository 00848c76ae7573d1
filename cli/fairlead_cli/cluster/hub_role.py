"""The role that lets a hub read exactly what SyncRules send and write the status that nodes may report.

Also finds what existing roles allow it to read beyond that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from fairlead_cli.cluster import collections
from fairlead_wire.objects.api_group import GROUP

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube


VERBS: Final = ("get", "list", "watch")
STATUS_VERBS: Final = ("patch",)
API: Final = "rbac.authorization.k8s.io"
OWN: Final = frozenset([("", "nodes"), ("", "events"), ("coordination.k8s.io", "leases")])
"""Resources that a hub reads whatever the rules are, besides its own API group."""
ANY: Final = "*"


class ServiceAccount(msgspec.Struct, frozen=True):
    """A service account."""

    namespace: str
    name: str

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    @property
    def groups(self) -> frozenset[str]:
        """The groups of every service account."""
        return frozenset(("system:serviceaccounts", f"system:serviceaccounts:{self.namespace}", "system:authenticated"))


def documents(
    name: str, account: ServiceAccount, kinds: Iterable[tuple[str, str]], reported: Iterable[tuple[str, str]] = ()
) -> list[dict[str, Any]]:
    """A ClusterRole to read ``kinds`` and patch the status of ``reported`` (each: group, plural), and its binding."""
    rules = [
        *_rules(kinds, VERBS),
        *_rules([(group, f"{plural}/status") for group, plural in reported], STATUS_VERBS),
    ]
    metadata = {"name": name, "labels": {"app.kubernetes.io/part-of": "fairlead"}}
    subject = {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
    role = {"apiGroup": API, "kind": "ClusterRole", "name": name}
    return [
        {"apiVersion": f"{API}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{API}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": [subject],
        },
    ]


def _rules(resources: Iterable[tuple[str, str]], verbs: Sequence[str]) -> list[dict[str, Any]]:
    by_group: dict[str, set[str]] = {}
    for group, plural in resources:
        by_group.setdefault(group, set()).add(plural)
    return [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": list(verbs)}
        for group, plurals in sorted(by_group.items())
    ]


def readable(
    account: ServiceAccount, bindings: Iterable[Mapping[str, Any]], roles: Iterable[Mapping[str, Any]]
) -> set[tuple[str, str]]:
    """The (group, plural) that ClusterRoleBindings let a service account read in every namespace; ``*`` is any."""
    by_name = {role["metadata"]["name"]: role for role in roles}
    found: set[tuple[str, str]] = set()
    for binding in bindings:
        if any(_is(subject, account) for subject in binding.get("subjects") or ()):
            role = by_name.get((binding.get("roleRef") or {}).get("name"), {})
            found.update(_read_by(role.get("rules") or ()))
    return found


def surplus(may: Iterable[tuple[str, str]], kinds: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The resources in ``may`` that no rule names and a hub does not need."""
    wanted = {*kinds, *OWN}
    return sorted(each for each in set(may) if each not in wanted and each[0] != GROUP)


def kind_text(kind: tuple[str, str]) -> str:
    """The kind as in ``deployments.apps``."""
    group, plural = kind
    return f"{plural}.{group}" if group else plural


def _is(subject: Mapping[str, Any], account: ServiceAccount) -> bool:
    if subject.get("kind") == "ServiceAccount":
        return (subject.get("namespace"), subject.get("name")) == (account.namespace, account.name)
    if subject.get("kind") == "Group":
        return subject.get("name") in account.groups
    return subject.get("kind") == "User" and subject.get("name") == account.user


def _read_by(rules: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for rule in rules:
        if {*VERBS, ANY} & set(rule.get("verbs") or ()) and not rule.get("resourceNames"):
            for group in rule.get("apiGroups") or ():
                for resource in rule.get("resources") or ():
                    if "/" not in resource:
                        yield group, resource


HUBS = "app.kubernetes.io/part-of=fairlead,app.kubernetes.io/component=hub"
EXAMPLE = "fairlead:fairlead-hub"
PODS = ("v1", "Pod")
"""Read by the hub if a rule selects referenced objects, because Pods have the references."""


# ── service accounts of hubs ──────────────────────────────────────────────────────────────────────────────────────────


def parse(text: str | None) -> ServiceAccount | None:
    """Parse NAMESPACE:NAME.  Raises ``click.UsageError`` for anything else."""
    if text is None:
        return None
    namespace, colon, name = text.partition(":")
    if not (colon and namespace and name) or "/" in text:
        raise click.UsageError(f"--hub-account {text}: must be NAMESPACE:NAME, as in {EXAMPLE}")
    return ServiceAccount(namespace, name)


async def hub_accounts(kube: Kube) -> list[ServiceAccount]:
    """The service accounts of hub Pods."""
    pods = await collections.items(kube, "api/v1/pods", labelSelector=HUBS)
    accounts = {
        (str(pod["metadata"]["namespace"]), str((pod.get("spec") or {}).get("serviceAccountName") or "default"))
        for pod in pods
    }
    return [ServiceAccount(namespace, name) for namespace, name in sorted(accounts)]


def one_of(accounts: Sequence[ServiceAccount]) -> ServiceAccount:
    """The only account.  Raises ``click.ClickException`` if there is not exactly one."""
    if len(accounts) == 1:
        return accounts[0]
    shown = ", ".join(f"{each.namespace}:{each.name}" for each in accounts) or "there is no hub Pod"
    raise click.ClickException(f"which account gets the role? ({shown}) Give --hub-account NAMESPACE:NAME")


# ── kinds that SyncRules name ─────────────────────────────────────────────────────────────────────────────────────────


def named(rules: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """(apiVersion, kind) of every entry; for an unreadable rule, also of its last readable version."""
    found: set[tuple[str, str]] = set()
    for rule in rules:
        for spec in (rule.get("spec"), _last_readable(rule)):
            for entry in _entries(spec):
                found.add((str(entry.get("apiVersion")), str(entry.get("kind"))))
                if entry.get("select") == "referenced":
                    found.add(PODS)
    return found


def reported(rules: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """(apiVersion, kind) of every entry that lets nodes report the status."""
    return {
        (str(entry.get("apiVersion")), str(entry.get("kind")))
        for rule in rules
        for spec in (rule.get("spec"), _last_readable(rule))
        for entry in _entries(spec)
        if entry.get("statusFromEdge") is True
    }


async def served(kube: Kube, kinds: Iterable[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str]]:
    """(group, plural) of each kind that the API server serves."""
    from fairlead_hub.io.cluster.api_error import ApiRefused

    found: dict[tuple[str, str], tuple[str, str]] = {}
    for api_version, kind in sorted(kinds):
        root = f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"
        try:
            resources = json.loads(await kube.get(root)).get("resources") or ()
        except ApiRefused:
            continue
        group = api_version.partition("/")[0] if "/" in api_version else ""
        for each in resources:
            if each["kind"] == kind and "/" not in each["name"]:
                found[api_version, kind] = (group, each["name"])
    return found


def _entries(spec: Any) -> Iterable[Mapping[str, Any]]:
    listed = spec.get("resources") if isinstance(spec, dict) else None
    return [each for each in listed or () if isinstance(each, dict)]


def _last_readable(rule: Mapping[str, Any]) -> Any:
    """The last readable spec, which is stored as JSON text; None if there is none."""
    text = (rule.get("status") or {}).get("lastReadable")
    try:
        return json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None
