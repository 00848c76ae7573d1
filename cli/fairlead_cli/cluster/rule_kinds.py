"""The kinds a hub watches for its SyncRules, as rules name them and as the API server calls their collections."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

PODS = ("v1", "Pod")
"""What says which objects are referenced, where a rule selects those."""


def named(rules: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """(apiVersion, kind) of every entry, also of the form in force of a rule that cannot be read."""
    found: set[tuple[str, str]] = set()
    for rule in rules:
        for spec in (rule.get("spec"), _last_readable(rule)):
            for entry in _entries(spec):
                found.add((str(entry.get("apiVersion")), str(entry.get("kind"))))
                if entry.get("select") == "referenced":
                    found.add(PODS)
    return found


def reported(rules: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """(apiVersion, kind) of every entry that lets nodes write the status."""
    return {
        (str(entry.get("apiVersion")), str(entry.get("kind")))
        for rule in rules
        for spec in (rule.get("spec"), _last_readable(rule))
        for entry in _entries(spec)
        if entry.get("statusFromEdge") is True
    }


async def served(kube: Kube, kinds: Iterable[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str]]:
    """(group, plural) of each that the API server serves."""
    from fairlead_hub.io.cluster.api_error import ApiRefused

    found: dict[tuple[str, str], tuple[str, str]] = {}
    for api_version, kind in sorted(kinds):
        root = f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"
        try:
            resources = json.loads(await kube.get(root)).get("resources") or ()
        except ApiRefused:
            continue
        group = api_version.partition("/")[0] if "/" in api_version else ""
        for each in resources:
            if each["kind"] == kind and "/" not in each["name"]:
                found[api_version, kind] = (group, each["name"])
    return found


def _entries(spec: Any) -> Iterable[Mapping[str, Any]]:
    listed = spec.get("resources") if isinstance(spec, dict) else None
    return [each for each in listed or () if isinstance(each, dict)]


def _last_readable(rule: Mapping[str, Any]) -> Any:
    """It is kept as text; one that is none says nothing."""
    text = (rule.get("status") or {}).get("lastReadable")
    try:
        return json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None
