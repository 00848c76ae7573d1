"""The status of SyncRules: what matched, what cannot be listed, why one is unreadable.

Only the status subresource is written; specs belong to their users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead_hub.cluster import deletion_blocked, sync_rule
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.cluster.spec_check import SpecCheck
from fairlead_hub.status.object_sync import condition

MESSAGE_CHARS_MAX = 1024
"""Limit of the message for the column; the conditions have the full text."""


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
    conditions = conditions_of(before)
    return {
        "observedGeneration": generation,
        "matchedNodes": len(placement.rules.members_of(name)),
        "matchedObjects": placement.rules.matches.count(name),
        "unlistedKinds": unlisted,
        # An unreadable rule may have been readable before: a restarted hub must know what it selected.
        "lastReadable": _form(rule) if rule is not None else _unknown_form(placement, name, before),
        "message": "; ".join(filter(None, (broken, why)))[:MESSAGE_CHARS_MAX],
        "conditions": [
            condition("Accepted", not broken, _accepted(placement, name), broken, conditions, generation, now),
            condition("Listed", listed, "Unlistable" if unlisted else "Listed" if listed else "Listing", why,
                      conditions, generation, now),
            *valid(check, conditions, generation, now),
        ],
    }  # fmt: skip


def valid(check: SpecCheck | None, before: list[dict[str, Any]], generation: int, now: str) -> list[dict[str, Any]]:
    """The condition ``Valid`` of the last check, if that was of this generation."""
    if check is None or check.generation != generation:
        return [each for each in before if each.get("type") == "Valid"][:1]
    reason = "Mistakes" if check.mistakes else "Valid"
    return [condition("Valid", not check.mistakes, reason, check.mistakes, before, generation, now)]


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
