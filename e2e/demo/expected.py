"""Computes what a node should hold from the cluster alone, without the hub's code.

Pods bound to the node ─► what they mount or name ─┐
ConfigMaps for everybody, PriorityClass, EdgeRoutes ┴─► the node's share ──compare──► differences, in words
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Object = Mapping[str, Any]
Key = tuple[str, str]

NAMESPACE = "harbour"
SHARED_LABEL = "harbour.example/share"
DEMO_LABEL = "fairlead.dev/demo"
# What a user means by an object; the rest is bookkeeping or belongs to the cluster alone.
CONTENT = ("spec", "data", "binaryData", "type", "value", "description", "immutable")


def key(item: Object) -> Key:
    """Kind and name; in this story they identify an object."""
    return item["kind"], item["metadata"]["name"]


def referenced(pod: Object) -> Iterator[Key]:
    """ConfigMaps and Secrets that a Pod mounts or names."""
    spec = pod["spec"]
    for each in spec.get("imagePullSecrets", []):
        yield "Secret", each["name"]
    for volume in spec.get("volumes", []):
        yield from _sources(volume)
        for source in volume.get("projected", {}).get("sources", []):
            yield from _sources(source)
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        for source in container.get("envFrom", []):
            yield from _sources(source)
        for variable in container.get("env", []):
            yield from _sources(variable.get("valueFrom", {}))


def _sources(holder: Object) -> Iterator[Key]:
    for field, kind in (
        ("configMap", "ConfigMap"),
        ("configMapRef", "ConfigMap"),
        ("configMapKeyRef", "ConfigMap"),
        ("secret", "Secret"),
        ("secretRef", "Secret"),
        ("secretKeyRef", "Secret"),
    ):
        if field in holder:
            yield kind, holder[field].get("name") or holder[field]["secretName"]


def share(node: str, items: Iterable[Object]) -> dict[Key, Object]:
    """The objects of the harbour that `node` should hold, out of all objects in the cluster of the rule's kinds."""
    everything = {key(item): item for item in items}
    bound = {
        name: item
        for name, item in everything.items()
        if item["kind"] == "Pod" and item["spec"].get("nodeName") == node
    }
    named = {name for pod in bound.values() for name in referenced(pod)}
    for_all = {
        name: item
        for name, item in everything.items()
        if (item["kind"] == "ConfigMap" and item["metadata"].get("labels", {}).get(SHARED_LABEL) == "everywhere")
        or item["kind"] in ("PriorityClass", "EdgeRoutes")
    }
    return bound | {name: everything[name] for name in named if name in everything} | for_all


def content(item: Object) -> dict[str, Any]:
    """The parts that must be equal in cluster and edge."""
    labels = item["metadata"].get("labels") or {}
    return {"uid": item["metadata"]["uid"], "labels": labels} | {
        field: item[field] for field in CONTENT if field in item
    }


def differences(wanted: Mapping[Key, Object], held: Mapping[Key, Object]) -> list[str]:
    """Missing, extra and different objects, one line each; empty if the edge matches the cluster."""
    found = [f"{kind} {name} is missing" for kind, name in sorted(wanted.keys() - held.keys())]
    found += [f"{kind} {name} should not be there" for kind, name in sorted(held.keys() - wanted.keys())]
    for name in sorted(wanted.keys() & held.keys()):
        here, there = content(wanted[name]), content(held[name])
        unequal = [field for field in here.keys() | there.keys() if here.get(field) != there.get(field)]
        if unequal:
            found.append(f"{name[0]} {name[1]} differs in {', '.join(sorted(unequal))}")
    return found


def behind(records: Iterable[Object], wanted: Mapping[str, Mapping[Key, Object]]) -> list[str]:
    """The ObjectSync and ClusterObjectSync records that do not (yet) show their node in sync."""
    awaited = {(node, item["metadata"]["uid"]): name for node, share in wanted.items() for name, item in share.items()}
    found: list[str] = []
    for record in records:
        spec, status = record["spec"], record.get("status") or {}
        name = awaited.pop((spec["nodeName"], spec["objectUID"]), None)
        label = f"{spec['nodeName']}: {spec['objectKind']} {spec['objectName']}"
        if name is None:
            found.append(f"{label} has a record but should not be there")
        elif status.get("state") != "Synced":
            found.append(f"{label} is {status.get('state', 'unknown')} {status.get('reason') or ''}".rstrip())
        elif status.get("objectResourceVersion") != status.get("wantedResourceVersion"):
            found.append(f"{label} holds {status.get('objectResourceVersion')}, not {status['wantedResourceVersion']}")
    return found + [f"{node}: {name[0]} {name[1]} has no record" for (node, _), name in awaited.items()]
