"""SyncRule and EdgeRoutes as the hub reads them: which kinds go to which nodes, which topics a node may name.

The CRDs' schemas refuse most nonsense; what slips through is refused here with the field and the reason, and a
broken rule never leads to a delete (placement freezes).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from fairlead_hub import selector
from fairlead_hub.content import GroupKind, LiveObject
from fairlead_hub.settings import Delivery

PRIORITY_DEFAULT = 5
PRIORITY_MAX = 9
ROUTES_PRIORITY = -1
"""EdgeRoutes go first: until they arrive an edge refuses what its applications publish."""
DEFAULT_TOPIC = "default/telemetry"

Select = Literal["bound", "referenced", "all"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One ``resources[]`` entry of a SyncRule."""

    api_version: str
    kind: str
    namespaces: frozenset[str] | None
    labels: selector.Selector
    select: Select
    delivery: Delivery | None
    priority: int

    @property
    def group_kind(self) -> GroupKind:
        group, slash, _ = self.api_version.rpartition("/")
        return (group if slash else "", self.kind)

    def covers(self, live: LiveObject) -> bool:
        """Namespace and labels fit (the kind is the caller's business)."""
        return (self.namespaces is None or live.resource.namespace in self.namespaces) and self.labels.matches(
            live.labels
        )


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One SyncRule."""

    name: str
    generation: int
    nodes: selector.Selector
    entries: tuple[Entry, ...]


class Routes(msgspec.Struct, frozen=True, kw_only=True):
    """What the hub needs of one EdgeRoutes object; the edge compiles the rest."""

    name: str
    uid: str
    generation: int
    nodes: selector.Selector
    topics: frozenset[str]
    route_names: frozenset[str]


def rule(body: dict[str, Any]) -> Rule:
    """Raises ``ValueError``: ``field: reason``."""
    spec = body.get("spec") or {}
    resources = spec.get("resources")
    if not isinstance(resources, list) or not resources:
        raise ValueError("spec.resources: at least one entry is needed")
    delivery = _delivery(spec.get("delivery"), "spec.delivery")
    priority = _priority(spec.get("priority"), "spec.priority", PRIORITY_DEFAULT)
    return Rule(
        name=str(body["metadata"]["name"]),
        generation=int(body["metadata"].get("generation", 0)),
        nodes=selector.compile(spec.get("nodeSelector"), "spec.nodeSelector"),
        entries=tuple(
            _entry(item, f"spec.resources[{index}]", delivery, priority) for index, item in enumerate(resources)
        ),
    )


def routes(body: dict[str, Any]) -> Routes:
    """Raises ``ValueError``: ``field: reason``."""
    spec = body.get("spec") or {}
    table = spec.get("routes") or {}
    if not isinstance(table, dict):
        raise ValueError("spec.routes: must map route names to routes")
    topics = {DEFAULT_TOPIC}
    for name, route in table.items():
        topic = route.get("topic") if isinstance(route, dict) else None
        if topic is not None:
            topics.add(_topic(topic, f"spec.routes.{name}.topic"))
    return Routes(
        name=str(body["metadata"]["name"]),
        uid=str(body["metadata"]["uid"]),
        generation=int(body["metadata"].get("generation", 0)),
        nodes=selector.compile(spec.get("nodeSelector"), "spec.nodeSelector"),
        topics=frozenset(topics),
        route_names=frozenset(str(name) for name in table),
    )


def _entry(value: Any, where: str, delivery: Delivery | None, priority: int) -> Entry:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: must be an object")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise ValueError(f"{where}.{field}: needed")
    select = value.get("select", "all")
    if select not in ("bound", "referenced", "all"):
        raise ValueError(f"{where}.select: must be bound, referenced or all, is {select!r}")
    if select == "bound" and (value["apiVersion"], value["kind"]) != ("v1", "Pod"):
        raise ValueError(f"{where}.select: only Pods are bound to nodes; use referenced or all for {value['kind']}")
    namespaces = value.get("namespaces")
    if namespaces is not None and not (isinstance(namespaces, list) and all(isinstance(n, str) for n in namespaces)):
        raise ValueError(f"{where}.namespaces: must be a list of names")
    return Entry(
        api_version=value["apiVersion"],
        kind=value["kind"],
        namespaces=None if namespaces is None else frozenset(namespaces),
        labels=selector.compile(value.get("labelSelector"), f"{where}.labelSelector"),
        select=select,
        delivery=_delivery(value.get("delivery"), f"{where}.delivery") or delivery,
        priority=_priority(value.get("priority"), f"{where}.priority", priority),
    )


def _delivery(value: Any, where: str) -> Delivery | None:
    if value is None:
        return None
    try:
        return msgspec.convert(value, Delivery)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _priority(value: Any, where: str, default: int) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= PRIORITY_MAX:
        raise ValueError(f"{where}: must be a whole number from 0 (first) to {PRIORITY_MAX}, is {value!r}")
    return value


def _topic(value: Any, where: str) -> str:
    namespace, slash, name = str(value).partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise ValueError(f"{where}: must be namespace/name, is {value!r}")
    return str(value)
