"""Decides whether an object must stay on a node for now, and why; for as few objects as possible.

    rules that cannot be read, kinds that cannot be listed, versions that are not served ─blocked─▶ the reason, or ""

A node holds an object that nothing selects for that node.  If that is certain, the object is deleted.  It is uncertain
if a rule that may concern this object cannot be read, and always before everything concerning the node is listed.
Doubt about one rule, kind or version keeps only the objects it selects or may have selected.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead_hub.cluster import sync_rule
from fairlead_hub.cluster.content import EDGE_ROUTES, POD, GroupKind, LiveObject
from fairlead_hub.cluster.placement import Placement
from fairlead_wire.objects.resource import Resource

EDGE_ROUTES_TYPE = "edgeroutes.fairlead.dev"
ROUTES_CONSEQUENCE = "it is sent to no node, and nodes keep the copy they hold until it is fixed"
LISTED_MAX = 5
"""Rules named in one message."""


def blocked(placement: Placement, node: str, at: Resource, kind: GroupKind | None, live: LiveObject | None) -> str:
    """Why ``at``, which the node holds, must stay; ``kind`` is None if discovery does not know it.

    ``live``: as it is now.
    """
    waiting = placement.listed.not_synced(node)
    if waiting:
        return waiting
    if at.type == EDGE_ROUTES_TYPE:
        return _routes(placement, at)
    return (
        _unreadable(placement, node, at, kind, live)
        or _unlisted(placement, node, at, kind)
        or _perhaps_paused(placement, at, kind)
    )


def _routes(placement: Placement, at: Resource) -> str:
    why = placement.rules.broken.get(f"edgeroutes/{at.name}")
    if why is not None:
        return f"EdgeRoutes {at.name} cannot be read: {why}"
    if EDGE_ROUTES in placement.listed.frozen:
        return f"EdgeRoutes cannot be listed: {placement.listed.frozen[EDGE_ROUTES]}"
    return ""


def _unreadable(placement: Placement, node: str, at: Resource, kind: GroupKind | None, live: LiveObject | None) -> str:
    """Keep what an unreadable rule selected, or may have selected."""
    labels = live.labels if live is not None else placement.rules.gone.get(at.key)
    for name in placement.rules.unreadable_for(node):
        for rule in (placement.rules.readable.get(name), placement.rules.reaches.get(name)):
            if rule is not None and any(_fits(entry, at, kind, labels) for entry in rule.entries):
                return f"SyncRule {name} cannot be read: {placement.rules.broken[f'syncrules/{name}']}"
    return ""


def _unlisted(placement: Placement, node: str, at: Resource, kind: GroupKind | None) -> str:
    if not placement.listed.frozen and not placement.rules.unserved:
        return ""
    for rule in placement.rules.readable.values():
        if node not in placement.rules.members_of(rule.name):
            continue
        for entry in rule.entries:
            if not _names(entry, at, kind) or not _in_namespace(entry, at):
                continue
            if entry.group_kind in placement.listed.frozen:
                return f"{entry.kind} cannot be listed: {placement.listed.frozen[entry.group_kind]}"
            # If it is held at the version that is not served now, it came by this entry; otherwise it did not.
            why = placement.rules.unserved.get((entry.api_version, entry.kind))
            if why is not None and entry.api_version == at.api_version:
                return f"{entry.kind} cannot be listed: {why}"
            if entry.select == "referenced" and POD in placement.listed.frozen:
                return f"Pod cannot be listed: {placement.listed.frozen[POD]}"
    return ""


def _perhaps_paused(placement: Placement, at: Resource, kind: GroupKind | None) -> str:
    """Objects of this kind were paused under an earlier hub, and it is not known yet which of them still are."""
    listed, paused_kinds = placement.listed, placement.paused_kinds
    if not paused_kinds.is_known and (kind is None or not placement.rules.named(kind)):
        return "ObjectSyncs are not listed yet"
    for group, name in paused_kinds.remembered():
        is_it = kind == (group, name) if kind is not None else at.group == group and is_called(at.plural, name.lower())
        if is_it and (group, name) not in listed.kinds:
            why = listed.frozen.get((group, name))
            return f"{name} cannot be listed: {why}" if why else f"{name} is not listed yet"
    return ""


def consequence(placement: Placement, name: str) -> str:
    """The effect of an unreadable SyncRule, for people."""
    rule = placement.rules.readable.get(name)
    if rule is not None:
        selects = "it or the present text selects" if name in placement.rules.reaches else "it selects"
        return (
            f"its last readable form (generation {rule.generation}) stays in force, and nothing that {selects} is"
            " deleted until the rule is fixed"
        )
    if name in placement.rules.reaches:
        return "what it may have selected is not deleted until the rule is fixed, and it selects nothing new"
    return "it selects nothing until it is fixed"


def unreadable_rules(placement: Placement, node: str) -> str:
    """For people: which SyncRules that concern this node cannot be read; empty if all can."""
    names = placement.rules.unreadable_for(node)
    found = [f"SyncRule {name}: {placement.rules.broken[f'syncrules/{name}']}" for name in names[:LISTED_MAX]]
    if len(names) > LISTED_MAX:
        found.append(f"and {len(names) - LISTED_MAX} more")
    return f"nothing that these select is deleted until they are fixed: {'; '.join(found)}" if found else ""


def _fits(entry: sync_rule.RuleEntry, at: Resource, kind: GroupKind | None, labels: Mapping[str, str] | None) -> bool:
    """None: it was deleted while no hub looked, and its labels are not known any more."""
    return _names(entry, at, kind) and _in_namespace(entry, at) and (labels is None or entry.labels.matches(labels))


def _in_namespace(entry: sync_rule.RuleEntry, at: Resource) -> bool:
    return entry.namespaces is None or at.namespace in entry.namespaces


def _names(entry: sync_rule.RuleEntry, at: Resource, kind: GroupKind | None) -> bool:
    group, name = entry.group_kind
    if kind is not None:
        return (group, name) == kind
    if group != at.group:
        return False
    # All kinds of a CRD's group belong to its owner, so whatever is held may be what the entry names.
    return bool(group) or is_called(at.plural, name.lower())


def is_called(plural: str, asked: str) -> bool:
    """Match a kind without discovery: ``tills.shop.io`` matches till, tills and tills.shop.io."""
    short = plural.partition(".")[0]
    return asked in (plural, short, short.removesuffix("s"), short.removesuffix("es"), f"{short[:-3]}y")
