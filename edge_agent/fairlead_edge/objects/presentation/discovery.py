"""Discovery for Kubernetes clients: groups, versions, kinds, and OpenAPI documents.

    /api, /apis, /apis/{group}, /api/v1, /apis/{group}/{version}, /version
    /openapi/v3                         the index: a URL with a hash for each group and version
    /openapi/v3/apis/apps/v1?hash=…     paths and schemas of its kinds

All are built from the served kinds.  The edge keeps no schemas: each kind has one that permits any field and says so.
Refused writes are listed with their refusal, because clients look for ``dryRun`` and ``fieldValidation`` at PATCH
before they send anything, and would otherwise report a missing path instead of the reason.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence, Set
from typing import Any, Final

import msgspec

from fairlead_edge.objects.kinds import CATEGORIES, SHORT_NAMES, Kind
from fairlead_edge.objects.statuses.patch import APPLY, MERGE

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
    """``/apis/{group}``; None if no kind of it is served."""
    if not any(kind.group == group for kind in kinds):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, kinds)}


def api_resources(
    group: str, version: str, kinds: Sequence[Kind], reportable: Set[Kind] = frozenset()
) -> Document | None:
    """``/api/v1`` or ``/apis/{group}/{version}``; None if no kind of it is served.

    ``reportable``: kinds whose status may be patched on this node.
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
    """``/version``: the API has the form of Kubernetes 1.36."""
    return {"major": "1", "minor": "36", "gitVersion": f"v1.36.0+fairlead-edge.{agent}", "platform": "linux"}


def _group(name: str, kinds: Sequence[Kind]) -> Document:
    versions = sorted({kind.version for kind in kinds if kind.group == name}, key=_preference)
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _preference(version: str) -> tuple[bool, int, int, int, str]:
    """The order of versions in Kubernetes: v2 before v1 before v1beta1 before v1alpha1, other names last."""
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


PATH: Final = "/openapi/v3"
KINDS_MAX: Final = 1000
"""How many kinds one document describes; others are served, but not described."""
HASH_CHARS: Final = 32
JSON: Final = "application/json"


_REFUSED: Final = {"405": {"description": "Not served at the edge: change the object in the cluster."}}
_NAMESPACE: Final = {"name": "namespace", "in": "path", "required": True, "schema": {"type": "string"}}
_NAME: Final = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}


class Described(msgspec.Struct, frozen=True):
    """An encoded document, and the hash for its URL and ETag."""

    body: bytes
    hash: str


def describe(kinds: Sequence[Kind], reportable: Set[Kind] = frozenset()) -> dict[str, Described]:
    """The documents by their paths below ``/openapi/v3/``, and the index as "".

    ``reportable``: kinds whose status may be patched on this node.
    """
    roots: dict[str, list[Kind]] = {}
    for kind in kinds:
        roots.setdefault(_root(kind), []).append(kind)
    found = {root: _described(document(of_root[:KINDS_MAX], reportable)) for root, of_root in sorted(roots.items())}
    index = {root: {"serverRelativeURL": f"{PATH}/{root}?hash={each.hash}"} for root, each in found.items()}
    return {"": _described({"paths": index}), **found}


def document(kinds: Sequence[Kind], reportable: Set[Kind] = frozenset()) -> Document:
    """The OpenAPI document of the kinds of one group and version."""
    paths: Document = {}
    for kind in kinds:
        paths |= _paths(kind, reports=kind in reportable)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Fairlead edge agent", "version": "v1.36.0"},
        "paths": paths,
        "components": {"schemas": {_name_of(kind): _schema(kind) for kind in kinds}},
    }


def _described(document: Document) -> Described:
    body = msgspec.json.encode(document)
    return Described(body, hashlib.sha256(body).hexdigest()[:HASH_CHARS].upper())


def _root(kind: Kind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def _name_of(kind: Kind) -> str:
    return ".".join(("dev.fairlead.edge", kind.group or "core", kind.version, kind.kind))


def _schema(kind: Kind) -> Document:
    text = {"type": "string"}
    return {
        "type": "object",
        "description": f"The edge keeps no schemas: `kubectl explain {kind.plural}` in the cluster lists the fields.",
        "properties": {
            "apiVersion": {**text, "description": "The group and version of the type."},
            "kind": {**text, "description": "The type of the object."},
            "metadata": {
                "type": "object",
                "description": "Name, namespace, labels and annotations; resourceVersion is the edge's.",
                "x-kubernetes-preserve-unknown-fields": True,
            },
        },
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-group-version-kind": [_gvk(kind)],
    }


def _gvk(kind: Kind) -> Document:
    return {"group": kind.group, "kind": kind.kind, "version": kind.version}


def _paths(kind: Kind, *, reports: bool) -> Document:
    inside = "/namespaces/{namespace}" if kind.namespaced else ""
    many = f"/{_root(kind)}{inside}/{kind.plural}"
    one = f"{many}/{{name}}"
    found: Document = {
        many: {
            "get": _operation(kind, "list", "Objects on this node, online or offline.", _read(kind)),
            "post": _write(kind, "post", (JSON,)),
            "parameters": [_NAMESPACE] if kind.namespaced else [],
        },
        one: {
            "get": _operation(kind, "get", "An object on this node, online or offline.", _read(kind)),
            "put": _write(kind, "put", (JSON,)),
            "patch": _write(kind, "patch", (MERGE, APPLY)),
            "delete": _write(kind, "delete", ()),
            "parameters": [_NAME, _NAMESPACE] if kind.namespaced else [_NAME],
        },
    }
    if kind.namespaced:
        listed = _operation(kind, "list", "Objects on this node, in all namespaces.", _read(kind))
        found[f"/{_root(kind)}/{kind.plural}"] = {"get": listed}
    if reports:
        reported = _write(kind, "patch", (MERGE, APPLY), _read(kind))
        found[f"{one}/status"] = {
            "get": found[one]["get"],
            "patch": {**reported, "description": "Report the status of an object, for the cluster."},
            "parameters": found[one]["parameters"],
        }
    return found


def _read(kind: Kind) -> Document:
    schema = {"$ref": f"#/components/schemas/{_name_of(kind)}"}
    return {"200": {"description": "OK", "content": {JSON: {"schema": schema}}}}


def _operation(kind: Kind, action: str, description: str, responses: Document) -> Document:
    return {
        "description": description,
        "responses": responses,
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
    }


def _write(kind: Kind, action: str, media: Sequence[str], responses: Document = _REFUSED) -> Document:
    found = _operation(kind, action, "Refused: objects change only in the cluster.", responses)
    names = ("dryRun", "fieldManager", "fieldValidation", *(("force",) if action == "patch" else ()))
    found["parameters"] = [
        {"name": name, "in": "query", "schema": {"type": "boolean" if name == "force" else "string"}} for name in names
    ]
    if media:
        found["requestBody"] = {"content": {each: {"schema": {"type": "object"}} for each in media}}
    return found
