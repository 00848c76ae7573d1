"""Kubernetes LabelSelectors, compiled once and evaluated often.  An empty or absent selector selects everything.

What Kubernetes would refuse is refused, including unknown fields: a selector with a misspelled field would otherwise
select everything.

``NodeIndex`` holds the labels of all edge Nodes and finds the nodes a selector matches without visiting each one: the
cost grows with the nodes that have the label.  Values are indexed only for keys that selectors name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

KEY_PREFIX_CHARS_MAX = 253
_KEY = re.compile(
    r"(?:([a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*)/)?"
    r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


class _Requirement(msgspec.Struct, frozen=True):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: frozenset[str]

    def holds(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                # As in Kubernetes, an absent key satisfies NotIn.
                return self.key not in labels or labels[self.key] not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels


class Selector(msgspec.Struct, frozen=True):
    """All requirements must hold."""

    requirements: tuple[_Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.holds(labels) for requirement in self.requirements)

    def needed(self) -> tuple[str, frozenset[str]] | None:
        """A key that labels must have, with its allowed values; None if no requirement names one."""
        return next(((each.key, each.values) for each in self.requirements if each.operator == "In"), None)


EVERYTHING = Selector()


def compile(value: Any, where: str) -> Selector:
    """Compile a selector from the API's JSON.  Raises ``ValueError`` with a message that begins with ``where``."""
    if value is None:
        return EVERYTHING
    if not isinstance(value, dict):
        raise ValueError(f"{where}: must be a label selector, not {type(value).__name__}")
    unknown = value.keys() - {"matchLabels", "matchExpressions"}
    if unknown:
        raise ValueError(f"{where}: unknown field {sorted(unknown)[0]}; known are matchLabels, matchExpressions")
    labels, expressions = _given(value, "matchLabels", {}), _given(value, "matchExpressions", [])
    if not isinstance(labels, dict):
        raise ValueError(f"{where}.matchLabels: must map labels to values")
    if not isinstance(expressions, list):
        raise ValueError(f"{where}.matchExpressions: must be a list")
    found = []
    for key, wanted in sorted(labels.items()):
        _check_key(key, f"{where}.matchLabels")
        _check_value(wanted, f"{where}.matchLabels.{key}")
        found.append(_Requirement(key, "In", frozenset((wanted,))))
    for index, expression in enumerate(expressions):
        found.append(_expression(expression, f"{where}.matchExpressions[{index}]"))
    return Selector(tuple(found))


def _given(value: dict[str, Any], name: str, otherwise: Any) -> Any:
    """Null counts as absent; any other empty value is validated."""
    found = value.get(name)
    return otherwise if found is None else found


def _check_key(key: str, where: str) -> None:
    found = _KEY.fullmatch(key)
    if found is None or len(found[1] or "") > KEY_PREFIX_CHARS_MAX:
        raise ValueError(f"{where}: {_cut(key)!r} is not a label key such as site or example.com/site")


def _check_value(value: Any, where: str) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{where}: must be text")
    if _VALUE.fullmatch(value) is None:
        raise ValueError(
            f"{where}: {_cut(value)!r} is not a label value: at most 63 letters, digits, -, _ and .,"
            " beginning and ending with a letter or digit"
        )


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"


def _expression(value: Any, where: str) -> _Requirement:
    if not isinstance(value, dict) or not isinstance(value.get("key"), str):
        raise ValueError(f"{where}: needs key and operator")
    unknown = value.keys() - {"key", "operator", "values"}
    if unknown:
        raise ValueError(f"{where}: unknown field {sorted(unknown)[0]}; known are key, operator, values")
    _check_key(value["key"], f"{where}.key")
    operator, values = value.get("operator"), _given(value, "values", [])
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        raise ValueError(f"{where}.operator: must be In, NotIn, Exists or DoesNotExist, is {operator!r}")
    if not isinstance(values, list):
        raise ValueError(f"{where}.values: must be a list of text")
    for number, item in enumerate(values):
        _check_value(item, f"{where}.values[{number}]")
    if bool(values) != (operator in ("In", "NotIn")):
        raise ValueError(f"{where}.values: {'needed' if not values else 'not allowed'} with {operator}")
    return _Requirement(value["key"], operator, frozenset(values))


class NodeIndex:
    """See the module docstring.  ``labels``: by node name."""

    def __init__(self) -> None:
        self.labels: dict[str, Mapping[str, str]] = {}
        self._by_key: dict[str, dict[str, set[str]]] = {}
        """Label key → value → nodes that have it."""

    def put(self, name: str, labels: Mapping[str, str]) -> None:
        """Add or update a node."""
        self._unindex(name)
        self.labels[name] = labels
        for key, nodes in self._by_key.items():
            if key in labels:
                nodes.setdefault(labels[key], set()).add(name)

    def drop(self, name: str) -> bool:
        """Returns False if the node is unknown."""
        self._unindex(name)
        return self.labels.pop(name, None) is not None

    def matching(self, selector: Selector) -> frozenset[str]:
        """Every node that the selector matches."""
        if selector == EVERYTHING:
            return frozenset(self.labels)
        labels = self.labels
        return frozenset(name for name in self._candidates(selector) if selector.matches(labels[name]))

    def _candidates(self, selector: Selector) -> Iterable[str]:
        """All nodes that may match: those with a value that a required key allows, if there is such a key."""
        needed = selector.needed()
        if needed is None:
            return self.labels
        key, values = needed
        found = self._nodes_by_value(key)
        return [name for value in values for name in found.get(value, ())]

    def _nodes_by_value(self, key: str) -> dict[str, set[str]]:
        known = self._by_key.get(key)
        if known is None:
            known = self._by_key[key] = {}
            for name, labels in self.labels.items():
                if key in labels:
                    known.setdefault(labels[key], set()).add(name)
        return known

    def _unindex(self, name: str) -> None:
        before = self.labels.get(name, {})
        for key, nodes in self._by_key.items():
            value = before.get(key)
            if value is not None and value in nodes:
                nodes[value].discard(name)
                if not nodes[value]:
                    del nodes[value]
