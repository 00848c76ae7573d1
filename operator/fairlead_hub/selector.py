"""Kubernetes LabelSelectors, compiled once and asked often.  Empty or absent selects everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class _Requirement(msgspec.Struct, frozen=True):
    key: str
    operator: str
    values: frozenset[str]

    def holds(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                # As Kubernetes reads it: an absent key satisfies NotIn.
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


EVERYTHING = Selector()


def compile(value: Any, where: str) -> Selector:
    """From the API's JSON.  Raises ``ValueError`` that begins with ``where``."""
    if value is None:
        return EVERYTHING
    if not isinstance(value, dict):
        raise ValueError(f"{where}: must be a label selector, is {type(value).__name__}")
    unknown = value.keys() - {"matchLabels", "matchExpressions"}
    if unknown:
        raise ValueError(f"{where}: unknown field {sorted(unknown)[0]}; known are matchLabels, matchExpressions")
    found = []
    for key, wanted in sorted((value.get("matchLabels") or {}).items()):
        if not isinstance(wanted, str):
            raise ValueError(f"{where}.matchLabels.{key}: must be text")
        found.append(_Requirement(key, "In", frozenset((wanted,))))
    for index, expression in enumerate(value.get("matchExpressions") or []):
        found.append(_expression(expression, f"{where}.matchExpressions[{index}]"))
    return Selector(tuple(found))


def _expression(value: Any, where: str) -> _Requirement:
    if not isinstance(value, dict) or not isinstance(value.get("key"), str):
        raise ValueError(f"{where}: needs key and operator")
    operator, values = value.get("operator"), value.get("values") or []
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        raise ValueError(f"{where}.operator: must be In, NotIn, Exists or DoesNotExist, is {operator!r}")
    if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
        raise ValueError(f"{where}.values: must be a list of text")
    if bool(values) != (operator in ("In", "NotIn")):
        raise ValueError(f"{where}.values: {'needed' if not values else 'not allowed'} with {operator}")
    return _Requirement(value["key"], operator, frozenset(values))
