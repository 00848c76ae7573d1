"""SyncRules and EdgeRoutes as the hub reads them: which kinds go to which nodes, which topics a node may publish to.

The definitions refuse most invalid objects.  Objects stored under older definitions are validated here with the models
the definitions are generated from, and all mistakes are reported at once.  An unreadable rule stays in force in its
last readable form, which is kept in its status (``lastReadable``), so that a hub that restarts knows it too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec
import pydantic

from fairlead_hub.cluster import api_json, selector
from fairlead_hub.cluster.content import GroupKind, LiveObject
from fairlead_hub.cluster.custom_resources import route_specs, specs
from fairlead_hub.settings import NodeDelivery
from fairlead_wire import event
from fairlead_wire.errors import Malformed
from fairlead_wire.validation.model import MODELS

PRIORITY_DEFAULT = 5
PRIORITY_MAX = 9
ROUTES_PRIORITY = -1
"""EdgeRoutes are sent first: until they arrive an edge refuses messages from applications."""
DEFAULT_TOPIC = "default/telemetry"
FORM_BYTES_MAX = 384 * 1024
"""Limit of the spec kept in the status: both must fit into etcd (1.5 MiB)."""

IN_FORCE = "LastReadableInForce"
MAY_BE_IN_FORCE = "SelectionUnknown"
"""Reasons of condition Accepted for an unreadable rule that selected something before."""

_TOPIC = re.compile(r"[A-Za-z0-9_-]+/[A-Za-z0-9_-]+")

MISTAKES_LISTED_MAX = 10
"""Mistakes reported for one object; the others are reported when these are fixed."""

Select = Literal["bound", "referenced", "all"]


class RuleEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One ``resources[]`` entry of a SyncRule."""

    api_version: str
    kind: str
    namespaces: frozenset[str] | None
    labels: selector.Selector
    select: Select
    delivery: NodeDelivery | None
    priority: int
    status_from_edge: bool = False

    @property
    def group_kind(self) -> GroupKind:
        group, slash, _ = self.api_version.rpartition("/")
        return (group if slash else "", self.kind)

    def covers(self, live: LiveObject) -> bool:
        """Whether namespace and labels match; the caller checks the kind."""
        return (self.namespaces is None or live.resource.namespace in self.namespaces) and self.labels.matches(
            live.labels
        )


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One SyncRule.  ``form`` is its spec as JSON text, or empty if it is too large for the status."""

    name: str
    uid: str = ""
    generation: int
    nodes: selector.Selector
    entries: tuple[RuleEntry, ...]
    form: str = ""


class BrokenRule(msgspec.Struct, frozen=True, kw_only=True):
    """An unreadable SyncRule, and why."""

    name: str
    uid: str
    reason: str
    last: Rule | None
    """Its last readable form, from its status."""
    reach: Rule | None
    """What else it may have selected, as far as its text says: a form that is not recorded may have been in force.
    None: nothing."""


class Routes(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an EdgeRoutes object that the hub needs; the edge compiles the rest."""

    name: str
    uid: str
    generation: int
    nodes: selector.Selector
    topics: frozenset[str]
    route_names: frozenset[str]


def rule(body: dict[str, Any]) -> Rule:
    """Parse a SyncRule.  Raises ``ValueError`` with ``field: reason`` for each mistake."""
    spec = _spec(body)
    if found := mistakes_in(spec, specs.SyncRuleSpec):
        raise ValueError(found)
    delivery, priority = _delivery(spec), _priority(spec, PRIORITY_DEFAULT)
    form = msgspec.json.encode(spec, order="sorted").decode()
    return Rule(
        name=str(body["metadata"]["name"]),
        uid=str(body["metadata"].get("uid", "")),
        generation=_generation(body["metadata"]),
        nodes=selector.compile(spec.get("nodeSelector"), "spec.nodeSelector"),
        entries=tuple(_entry(item, delivery, priority) for item in spec["resources"]),
        form=form if len(form) <= FORM_BYTES_MAX else "",
    )


def unreadable(body: dict[str, Any], reason: str) -> BrokenRule:
    """What is known about a rule that ``rule`` refused for this reason."""
    metadata, status = body["metadata"], body.get("status")
    status = status if isinstance(status, dict) else {}
    generation, observed = metadata.get("generation", 0), status.get("observedGeneration", 0)
    # If it was unreadable in every generation, it never selected anything.  Otherwise a form that its status does not
    # record may have been in force (written by an older hub, or the hub was killed within a second).
    unseen = isinstance(generation, int) and isinstance(observed, int) and generation - observed > 1
    last = _last_readable(body, status)
    reason_before = _accepted(status).get("reason")
    unknown = unseen or reason_before == MAY_BE_IN_FORCE or (last is None and _was_in_force(status))
    return BrokenRule(
        name=str(metadata["name"]),
        uid=str(metadata.get("uid", "")),
        reason=reason,
        last=last,
        reach=_reach(body) if unknown else None,
    )


def _last_readable(body: dict[str, Any], status: dict[str, Any]) -> Rule | None:
    kept = status.get("lastReadable")
    if not isinstance(kept, dict) or not isinstance(kept.get("spec"), str):
        return None
    try:
        metadata = {**body["metadata"], "generation": kept.get("generation", 0)}
        spec, problem = api_json.document(kept["spec"].encode())
        return None if problem else rule({"metadata": metadata, "spec": spec})
    except (Malformed, ValueError, TypeError):  # edited by hand
        return None


def _was_in_force(status: dict[str, Any]) -> bool:
    if isinstance(status.get("lastReadable"), dict):
        return True
    accepted = _accepted(status)
    return accepted.get("status") == "True" or accepted.get("reason") in (IN_FORCE, MAY_BE_IN_FORCE)


def _accepted(status: dict[str, Any]) -> dict[str, Any]:
    """The condition Accepted; empty if there is none."""
    conditions = status.get("conditions")
    for each in conditions if isinstance(conditions, list) else ():
        if isinstance(each, dict) and each.get("type") == "Accepted":
            return each
    return {}


def _reach(body: dict[str, Any]) -> Rule:
    """The most it can have selected, judged by its readable parts: an unreadable selector selects everything."""
    spec = body.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    resources = spec.get("resources")
    entries = []
    for item in resources if isinstance(resources, list) else ():
        if isinstance(item, dict) and isinstance(item.get("apiVersion"), str) and isinstance(item.get("kind"), str):
            namespaces = item.get("namespaces")
            named = isinstance(namespaces, list) and all(isinstance(name, str) for name in namespaces)
            entries.append(
                RuleEntry(
                    api_version=item["apiVersion"],
                    kind=item["kind"],
                    namespaces=frozenset(namespaces) if named and isinstance(namespaces, list) else None,
                    labels=_selector_or_everything(item.get("labelSelector")),
                    select="all",
                    delivery=None,
                    priority=PRIORITY_DEFAULT,
                )
            )
    return Rule(
        name=str(body["metadata"]["name"]),
        generation=0,
        nodes=_selector_or_everything(spec.get("nodeSelector")),
        entries=tuple(entries),
    )


def _selector_or_everything(value: Any) -> selector.Selector:
    try:
        return selector.compile(value, "")
    except ValueError:
        return selector.EVERYTHING


def routes(body: dict[str, Any]) -> Routes:
    """Parse an EdgeRoutes object.  Raises ``ValueError`` (``field: reason``) if its nodes cannot be determined.

    The edge validates routes one by one.  An invalid topic is not granted; the edge refuses its route.
    """
    spec = _spec(body)
    known = [field.name for field in MODELS.fields(route_specs.EdgeRoutesSpec)]
    reach = {name: value for name, value in spec.items() if name == "nodeSelector" or name not in known}
    if found := mistakes_in(reach, route_specs.EdgeRoutesReach):
        raise ValueError(found)
    table = spec.get("routes")
    table = table if isinstance(table, dict) else {}
    named = {route["topic"] for route in table.values() if isinstance(route, dict) and _is_topic(route.get("topic"))}
    return Routes(
        name=str(body["metadata"]["name"]),
        uid=str(body["metadata"]["uid"]),
        generation=_generation(body["metadata"]),
        nodes=selector.compile(spec.get("nodeSelector"), "spec.nodeSelector"),
        topics=frozenset((DEFAULT_TOPIC, *named)),
        route_names=frozenset(str(name) for name in table),
    )


def _generation(metadata: dict[str, Any]) -> int:
    """The generation; 0 if absent."""
    found = metadata.get("generation", 0)
    return found if isinstance(found, int) else 0


def _spec(body: dict[str, Any]) -> dict[str, Any]:
    spec = body.get("spec") or {}
    if not isinstance(spec, dict):
        raise ValueError("spec: must be an object")
    return spec


def mistakes_in(spec: Any, model: Any) -> str:
    """All mistakes on one line, each with its path; empty if there are none."""
    try:
        MODELS.read(spec, model)
    except (ValueError, RecursionError):
        said = [str(each.below("spec")) for each in MODELS.find(spec, model)]
    else:
        return ""
    if len(said) > MISTAKES_LISTED_MAX:
        said[MISTAKES_LISTED_MAX:] = [f"and {len(said) - MISTAKES_LISTED_MAX} more"]
    return "; ".join(said) or "spec: cannot be read"


def _entry(item: dict[str, Any], delivery: NodeDelivery | None, priority: int) -> RuleEntry:
    """Build an entry that is known to be valid."""
    namespaces = item.get("namespaces")
    return RuleEntry(
        api_version=item["apiVersion"],
        kind=item["kind"],
        namespaces=None if namespaces is None else frozenset(namespaces),
        labels=selector.compile(item.get("labelSelector"), "labelSelector"),
        select=item.get("select", "all"),
        delivery=_delivery(item) or delivery,
        priority=_priority(item, priority),
        status_from_edge=item.get("statusFromEdge") is True,
    )


def _delivery(item: dict[str, Any]) -> NodeDelivery | None:
    found = item.get("delivery")
    return None if found is None else specs.DeliverySpec.model_validate(found).policy()


def _priority(item: dict[str, Any], default: int) -> int:
    found = item.get("priority")
    return default if found is None else int(found)


def _is_topic(value: Any) -> bool:
    """``namespace/name`` in a form the edge accepts, and not one of Fairlead's own topics."""
    return isinstance(value, str) and _TOPIC.fullmatch(value) is not None and not event.is_reserved(value)


# ---- the check of a spec, for its user -----------------------------------------------------------


Collection = Literal["syncrules", "edgeroutes"]
COLLECTIONS: tuple[Collection, ...] = get_args(Collection)
_MODELS: Mapping[Collection, type[pydantic.BaseModel]] = {
    "syncrules": specs.SyncRuleSpec,
    "edgeroutes": route_specs.EdgeRoutesSpec,
}


class SpecCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Mistakes of one generation of one SyncRule or EdgeRoutes object, for condition ``Valid`` of its status.

    Its effect is decided elsewhere, and nodes validate routes one by one.  This check runs before any node is asked,
    and also covers objects that were stored under older definitions.
    """

    collection: Collection
    name: str
    uid: str
    generation: int
    mistakes: str
    """Each with its path; empty if there are none."""


def check_spec(collection: Collection, name: str, uid: str, generation: int, spec: Any) -> SpecCheck:
    """Validate a spec of any shape.  Never raises."""
    mistakes = mistakes_in(spec, _MODELS[collection])
    return SpecCheck(collection=collection, name=name, uid=uid, generation=generation, mistakes=mistakes)
