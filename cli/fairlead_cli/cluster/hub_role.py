"""The role that lets a hub read what SyncRules send, and write the status they let nodes report, and no more.

And what a role allows to be read beyond that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_wire.objects.api_group import GROUP

VERBS: Final = ("get", "list", "watch")
STATUS_VERBS: Final = ("patch",)
API: Final = "rbac.authorization.k8s.io"
OWN: Final = frozenset([("", "nodes"), ("", "events"), ("coordination.k8s.io", "leases")])
"""What a hub reads besides, whatever the rules say; and all of its own group."""
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
        """That every service account is in."""
        return frozenset(("system:serviceaccounts", f"system:serviceaccounts:{self.namespace}", "system:authenticated"))


def documents(
    name: str, account: ServiceAccount, kinds: Iterable[tuple[str, str]], reported: Iterable[tuple[str, str]] = ()
) -> list[dict[str, Any]]:
    """A ClusterRole that reads these (group, plural) and patches the status of those ``reported``, and its binding."""
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
    """(group, plural) that ClusterRoleBindings let a service account read in every namespace; ``*`` is any."""
    by_name = {role["metadata"]["name"]: role for role in roles}
    found: set[tuple[str, str]] = set()
    for binding in bindings:
        if any(_is(subject, account) for subject in binding.get("subjects") or ()):
            role = by_name.get((binding.get("roleRef") or {}).get("name"), {})
            found.update(_read_by(role.get("rules") or ()))
    return found


def surplus(may: Iterable[tuple[str, str]], kinds: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """What no rule names and a hub does not need."""
    wanted = {*kinds, *OWN}
    return sorted(each for each in set(may) if each not in wanted and each[0] != GROUP)


def shown(kind: tuple[str, str]) -> str:
    """``deployments.apps``."""
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
