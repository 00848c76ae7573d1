"""What clients ask before they ask for objects: groups, versions, kinds.

The documents of ``/api``, ``/apis``, ``/apis/{group}``, ``/api/v1`` and ``/apis/{group}/{version}``, and the version
of the server, built from the kinds that are served.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import Any, Final

from fairlead_edge.objects.kinds import CATEGORIES, SHORT_NAMES, Kind

VERBS: Final = ("get", "list", "watch")
STATUS_VERBS: Final = ("get", "patch")

_VERSION = re.compile(r"v(?P<major>\d{1,9})(?:(?P<stage>alpha|beta)(?P<minor>\d{1,9})?)?")

Document = dict[str, Any]


def api_versions() -> Document:
    """``/api``"""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def api_groups(kinds: Sequence[Kind]) -> Document:
    """``/apis``"""
    names = sorted({kind.group for kind in kinds if kind.group})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name, kinds) for name in names]}


def api_group(group: str, kinds: Sequence[Kind]) -> Document | None:
    """``/apis/{group}``; None when nothing of it is served."""
    if not any(kind.group == group for kind in kinds):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, kinds)}


def api_resources(
    group: str, version: str, kinds: Sequence[Kind], reportable: Set[Kind] = frozenset()
) -> Document | None:
    """``/api/v1`` or ``/apis/{group}/{version}``; None when nothing of it is served.

    ``reportable``: kinds whose status may be patched here.
    """
    found = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    if not found:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": found[0].api_version,
        "resources": [
            *(_resource(kind) for kind in found),
            *(_status_resource(kind) for kind in found if kind in reportable),
        ],
    }


def server_version(agent: str) -> Document:
    """``/version``: the API's shape is that of Kubernetes 1.36, the program is ours."""
    return {"major": "1", "minor": "36", "gitVersion": f"v1.36.0+fairlead-edge.{agent}", "platform": "linux"}


def _group(name: str, kinds: Sequence[Kind]) -> Document:
    versions = sorted({kind.version for kind in kinds if kind.group == name}, key=_preference)
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _preference(version: str) -> tuple[bool, int, int, int, str]:
    """v2 before v1 before v1beta1 before v1alpha1, other names last: as Kubernetes orders versions."""
    found = _VERSION.fullmatch(version)
    if not found:
        return True, 0, 0, 0, version
    stage = ("", "beta", "alpha").index(found["stage"] or "")
    return False, stage, -int(found["major"]), -int(found["minor"] or 0), version


def _status_resource(kind: Kind) -> Document:
    return {
        "name": f"{kind.plural}/status",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(STATUS_VERBS),
    }


def _resource(kind: Kind) -> Document:
    entry: Document = {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(VERBS),
    }
    if short := SHORT_NAMES.get((kind.group, kind.plural)):
        entry["shortNames"] = short
    if categories := CATEGORIES.get((kind.group, kind.plural)):
        entry["categories"] = categories
    return entry
