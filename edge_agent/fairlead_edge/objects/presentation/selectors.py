"""Label and field selectors, as Kubernetes clients write them.

    app=shop,tier!=cache,env in (prod, test),zone notin (a),canary,!old
    metadata.name=prices,status.phase!=Failed

Set-based and equality terms are joined by commas and must all hold.  An object without the label satisfies
``!=`` and ``notin``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from fairlead_wire.errors import Permanent

SELECTOR_CHARS_MAX: Final = 4096

Predicate = Callable[[Mapping[str, Any]], bool]

_KEY: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE: Final = r"[-A-Za-z0-9_.]*"
_SET = re.compile(rf"(?P<key>{_KEY})\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUALITY = re.compile(rf"(?P<key>{_KEY})\s*(?P<operator>==|=|!=)\s*(?P<value>{_VALUE})")
_EXISTS = re.compile(rf"(?P<absent>!)?\s*(?P<key>{_KEY})")
_VALUES = re.compile(rf"\s*{_VALUE}\s*(?:,\s*{_VALUE}\s*)*")
_FIELD = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9.]*)\s*(?P<operator>==|=|!=)\s*(?P<value>.*)")

_METADATA_FIELDS: Final = ("metadata.name", "metadata.namespace")
FIELDS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "pods"): (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    ("", "events"): (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "type",
    ),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "namespaces"): ("status.phase",),
    ("", "secrets"): ("type",),
    ("", "services"): ("spec.clusterIP", "spec.type"),
}
"""Fields that a selector may use besides name and namespace, by (group, plural), as in the API server."""


class BadSelector(Permanent):
    """The selector cannot be parsed; the text says where."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="bad_selector")


def labels(text: str) -> Predicate:
    """Compile a label selector; empty matches all.  Raises ``BadSelector``."""
    terms = _label_terms(_bounded(text))

    def matches(document: Mapping[str, Any]) -> bool:
        found = (document.get("metadata") or {}).get("labels") or {}
        return all(term(found) for term in terms)

    return matches


def fields(text: str, group: str, plural: str) -> Predicate:
    """Compile a field selector for one type; empty matches all.  Raises ``BadSelector``."""
    allowed = (*_METADATA_FIELDS, *FIELDS.get((group, plural), ()))
    terms: list[tuple[list[str], str, bool]] = []
    for part in filter(None, (part.strip() for part in _bounded(text).split(","))):
        found = _FIELD.fullmatch(part)
        if not found:
            raise BadSelector(f"field selector: {part!r} is not of the form field=value or field!=value")
        if found["key"] not in allowed:
            raise BadSelector(f"field label not supported: {found['key']}; supported: {', '.join(allowed)}")
        terms.append((found["key"].split("."), found["value"].strip(), found["operator"] != "!="))
    return lambda document: all((_text_at(document, path) == value) is wanted for path, value, wanted in terms)


def _bounded(text: str) -> str:
    if len(text) > SELECTOR_CHARS_MAX:
        raise BadSelector(f"a selector of {len(text)} characters exceeds the limit of {SELECTOR_CHARS_MAX}")
    return text


def _label_terms(text: str) -> list[Predicate]:
    terms: list[Predicate] = []
    rest = text.strip()
    while rest:
        for pattern, build in ((_SET, _set_term), (_EQUALITY, _equality_term), (_EXISTS, _exists_term)):
            found = pattern.match(rest)
            if found and (not (after := rest[found.end() :].lstrip()) or after[0] == ","):
                terms.append(build(found))
                rest = after[1:].lstrip()
                if after and not rest:
                    raise BadSelector("label selector: nothing follows the last comma")
                break
        else:
            raise BadSelector(f"label selector: cannot be parsed from {rest[:60]!r} on")
    return terms


def _set_term(found: re.Match[str]) -> Predicate:
    if not _VALUES.fullmatch(found["values"]):
        raise BadSelector(f"label selector: ({found['values']}) is not a list of label values")
    key, values = found["key"], frozenset(value.strip() for value in found["values"].split(","))
    if found["operator"] == "in":
        return lambda labels: key in labels and labels[key] in values
    return lambda labels: key not in labels or labels[key] not in values


def _equality_term(found: re.Match[str]) -> Predicate:
    key, value = found["key"], found["value"]
    if found["operator"] == "!=":
        return lambda labels: key not in labels or labels[key] != value
    return lambda labels: key in labels and labels[key] == value


def _exists_term(found: re.Match[str]) -> Predicate:
    key = found["key"]
    if found["absent"]:
        return lambda labels: key not in labels
    return lambda labels: key in labels


def _text_at(document: Mapping[str, Any], path: list[str]) -> str:
    value: Any = document
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
