"""The status of SyncRules: what matched, what cannot be listed, why one is unreadable.

Only the status subresource is written; specs belong to their users.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairlead_hub.cluster import deletion_blocked, sync_rule
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.cluster.sync_rule import SpecCheck
from fairlead_hub.status.object_sync import condition
from fairlead_wire.objects.api_group import EDGE_LABEL

MATCHES_DEFINITION = "the object matches its definition"
MESSAGE_CHARS_MAX = 1024
"""Limit of the message for the column; the conditions have the full text."""
WARNINGS_CHARS_MAX = 300
"""Of warnings in a line for people."""
NO_NODE = "selects no node"
NO_NODE_REMEDY = f"compare nodeSelector with kubectl get nodes -l {EDGE_LABEL} --show-labels"
"""Also applies if only the edge label is missing: then the command lists no node."""
NO_OBJECT = "selects no object"
NO_OBJECT_REMEDY = "compare namespaces, names and labels in its objects with kubectl get"


def of_rule(
    placement: Placement,
    name: str,
    before: Mapping[str, Any],
    generation: int,
    now: str,
    check: SpecCheck | None = None,
) -> dict[str, Any] | None:
    """``before`` is the current status.  Returns None if there is nothing to write yet."""
    broken = placement.rules.broken.get(f"syncrules/{name}", "")
    rule = placement.rules.readable.get(name)
    if rule is None and not broken:
        return None
    if broken:
        broken = f"{broken}; {deletion_blocked.consequence(placement, name)}"
    entries = [entry for entry in rule.entries if placement.rules.in_force(entry)] if rule is not None else []
    kinds = sorted({entry.group_kind for entry in entries})
    unlisted = _unlisted(placement, rule.entries if rule is not None else ())
    listed = not unlisted and all(kind in placement.listed.kinds for kind in kinds)
    why = "; ".join(unlisted)
    members = len(placement.rules.members_of(name))
    nowhere = no_node(members) if placement.listed.nodes and not broken else ""
    objects = placement.rules.matches.count(name)
    nothing = no_object() if listed and entries and not objects and not broken else ""
    conditions = conditions_of(before)
    return {
        "observedGeneration": generation,
        "matchedNodes": members,
        "matchedObjects": objects,
        "unlistedKinds": unlisted,
        # An unreadable rule may have been readable before: a restarted hub must know what it selected.
        "lastReadable": _form(rule) if rule is not None else _unknown_form(placement, name, before),
        "message": "; ".join(filter(None, (broken, nowhere, nothing, why)))[:MESSAGE_CHARS_MAX],
        "conditions": [
            condition("Accepted", not broken, _accepted(placement, name), broken, conditions, generation, now),
            condition("Listed", listed, "Unlistable" if unlisted else "Listed" if listed else "Listing", why,
                      conditions, generation, now),
            *valid(check, conditions, generation, now),
        ],
    }  # fmt: skip


def no_node(selected: int) -> str:
    """What is said of a rule that is for no node; empty where it is for one."""
    return "" if selected else f"{NO_NODE}: {NO_NODE_REMEDY}"


def no_object() -> str:
    """What is said of a rule whose kinds are listed and that selects none of their objects."""
    return f"{NO_OBJECT}: {NO_OBJECT_REMEDY}"


def nothing_selected(message: str) -> Iterator[tuple[str, str]]:
    """What an object's message says about selecting nothing: what, and the remedy."""
    for what, remedy in ((NO_NODE, NO_NODE_REMEDY), (NO_OBJECT, NO_OBJECT_REMEDY)):
        if f"; {what}: " in f"; {message}":
            yield what, remedy


def failing(status: Mapping[str, Any]) -> str:
    """The first error of an EdgeRoutes object that is not in force at some node, and how many more there are."""
    found: dict[str, str] = {}
    for row in status.get("failingNodes") or ():
        for each in row.get("errors") or ({"message": row.get("message")},):
            said = ": ".join(str(part) for part in (each.get("route"), each.get("message")) if part)
            found.setdefault(said, str(row.get("node")))
    first, node = next(iter(found.items()), ("", ""))
    more = f"; and {len(found) - 1} more; see fairlead routes --by-node" if len(found) > 1 else ""
    return f"{first} [{node}]{more}" if first else str(status.get("message") or node)


def warnings(status: Mapping[str, Any]) -> str:
    """The warnings about an EdgeRoutes object that is accepted; empty without any."""
    warned = next((each for each in conditions_of(status) if each.get("type") == "Warned"), {})
    said = str(warned.get("message") or "") if warned.get("status") == "True" else ""
    return said if len(said) <= WARNINGS_CHARS_MAX else f"{said[:WARNINGS_CHARS_MAX]}…"


def trouble(kind: str, name: str, status: Mapping[str, Any]) -> dict[str, Any] | None:
    """A row for people, of a SyncRule or EdgeRoutes object whose status says that not all of it works; else None."""
    said = str(status.get("message") or "")
    reasons = [str(each) for each in status.get("unlistedKinds") or ()]
    if not reasons and status.get("failingNodes"):
        reasons = [f"not in force everywhere: {failing(status)}"]
    elif not reasons and (warned := warnings(status)):
        reasons = [f"accepted with warnings: {warned}"]
    reasons[:0] = [f"{what}: {remedy}" for what, remedy in nothing_selected(said)]
    return {"kind": kind, "name": name, "reason": "; ".join(reasons)} if reasons else None


def valid(
    check: SpecCheck | None, before: list[dict[str, Any]], generation: int, now: str, more: str = ""
) -> list[dict[str, Any]]:
    """The condition ``Valid`` of the last check, if that was of this generation.

    It is about the form only; ``more`` says where the rest is shown.
    """
    if check is None or check.generation != generation:
        return [each for each in before if each.get("type") == "Valid"][:1]
    reason = "Mistakes" if check.mistakes else "Valid"
    said = check.mistakes or f"{MATCHES_DEFINITION}{more}"
    return [condition("Valid", not check.mistakes, reason, said, before, generation, now)]


def _accepted(placement: Placement, name: str) -> str:
    """The reason also says whether anything was in force: definitions older than ``lastReadable`` keep it."""
    if f"syncrules/{name}" not in placement.rules.broken:
        return "Accepted"
    if name in placement.rules.reaches:
        return sync_rule.MAY_BE_IN_FORCE
    return sync_rule.IN_FORCE if name in placement.rules.readable else "Invalid"


def _form(rule: sync_rule.Rule) -> dict[str, Any]:
    """Without text if it is too large: then it is at least known that it was readable once."""
    return {"generation": rule.generation, "spec": rule.form}


def _unknown_form(placement: Placement, name: str, before: Mapping[str, Any]) -> Any:
    """The stored form, for a hub that can read it; otherwise a note that something may have been in force."""
    kept = before.get("lastReadable")
    return {"generation": 0, "spec": ""} if kept is None and name in placement.rules.reaches else kept


def _unlisted(placement: Placement, entries: Iterable[sync_rule.RuleEntry]) -> list[str]:
    """The rule's kinds that cannot be listed, and why; also versions of kinds that are served at another version."""
    found: dict[str, None] = {}
    for entry in entries:
        why = placement.rules.unserved.get((entry.api_version, entry.kind))
        if why is not None:
            found[f"{entry.api_version} {entry.kind}: {why}"] = None
        elif entry.group_kind in placement.listed.frozen:
            found[f"{entry.kind}: {placement.listed.frozen[entry.group_kind]}"] = None
    return list(found)


def conditions_of(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conditions in a status; one edited by hand may contain anything."""
    found = status.get("conditions")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
