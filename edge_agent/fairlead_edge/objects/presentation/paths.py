"""Paths of the Kubernetes-style API, read: which object, list or document is meant.

/api/v1/pods                              list, all namespaces
/api/v1/namespaces/shop/pods/till         one object
/apis/apps/v1/namespaces/shop/deployments
/api/v1/nodes/edge-1/status               a subresource
"""

from __future__ import annotations

from typing import Final

import msgspec

PATH_CHARS_MAX: Final = 1024


class Documents(msgspec.Struct, frozen=True, kw_only=True):
    """A discovery document: of all groups (nothing set), of a group, or of a version."""

    legacy: bool
    """Below ``/api``, not ``/apis``."""
    group: str = ""
    version: str = ""


class Objects(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of a type; ``name`` "" = a list, ``namespace`` None = all namespaces or cluster-scoped."""

    group: str
    version: str
    plural: str
    namespace: str | None = None
    name: str = ""
    subresource: str = ""


def parse(path: str) -> Documents | Objects | None:
    """Read a path that starts with ``/api`` or ``/apis``; None when it means nothing."""
    parts = path.strip("/").split("/")
    if len(path) > PATH_CHARS_MAX or any(not part for part in parts):
        return None
    match parts:
        case ["api"]:
            return Documents(legacy=True)
        case ["apis"]:
            return Documents(legacy=False)
        case ["apis", group]:
            return Documents(legacy=False, group=group)
        case ["api", version]:
            return Documents(legacy=True, version=version)
        case ["apis", group, version]:
            return Documents(legacy=False, group=group, version=version)
        case ["api", version, *rest]:
            return _objects("", version, rest)
        case ["apis", group, version, *rest]:
            return _objects(group, version, rest)
        case _:
            return None


def _objects(group: str, version: str, rest: list[str]) -> Objects | None:
    def at(plural: str, namespace: str | None, name: str = "", subresource: str = "") -> Objects:
        return Objects(
            group=group, version=version, plural=plural, namespace=namespace, name=name, subresource=subresource
        )

    match rest:
        # Two parts below "namespaces" are a type in a namespace, except the subresources of a namespace itself.
        case ["namespaces", name, ("status" | "finalize") as subresource] if not group:
            return at("namespaces", None, name, subresource)
        case ["namespaces", namespace, plural]:
            return at(plural, namespace)
        case ["namespaces", namespace, plural, name]:
            return at(plural, namespace, name)
        case ["namespaces", namespace, plural, name, *subresource]:
            return at(plural, namespace, name, "/".join(subresource))
        case [plural]:
            return at(plural, None)
        case [plural, name]:
            return at(plural, None, name)
        case [plural, name, *subresource]:
            return at(plural, None, name, "/".join(subresource))
        case _:
            return None
