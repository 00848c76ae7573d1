"""Paths into a JSON body: names joined by dots, at most one `[n]` behind each name, and nothing else."""

from __future__ import annotations

import re

from fairlead_edge.routes.values import UNDEFINED, Value

Step = str | int
# Below, exact types are compared, not asked for with isinstance: JSON has no others, and each condition of each message
# needs this (0.13 µs instead of 0.19 µs a leaf). mypy does not follow it.

_NAME = re.compile(r'[^()<>@,;:\\"/\[\]?={}. \t\r\n]+')
_INDEX = re.compile(r"\[([0-9]{1,9})\]")


def parse(path: str) -> tuple[Step, ...]:
    """The steps of a path. Raises `ValueError` with the reason; a name of digits alone is none."""
    if not path:
        raise ValueError("a path is missing after the dot")
    steps: list[Step] = []
    position = 0
    while True:
        name = _NAME.match(path, position)
        if name is None:
            raise ValueError(f"a name is missing at {path[position:] or 'the end'!r}")
        if name[0].isascii() and name[0].isdigit():
            raise ValueError(f"{name[0]!r} is a number, not a name; an array element is written name[{name[0]}]")
        steps.append(name[0])
        position = name.end()
        if index := _INDEX.match(path, position):
            steps.append(int(index[1]))
            position = index.end()
        if position == len(path):
            return tuple(steps)
        if path[position] != ".":
            raise ValueError(f"only name, name[n] and dots are possible, not {path[position:]!r}")
        position += 1


def find(document: object, steps: tuple[Step, ...]) -> object:
    """What the path leads to; None where it leads nowhere."""
    for step in steps:
        if type(step) is str:
            if type(document) is not dict:
                return None
            document = document.get(step)
        elif type(document) is list and step < len(document):  # type: ignore[operator]
            document = document[step]  # type: ignore[index]
        else:
            return None
    return document


def value_of(found: object) -> Value:
    """A leaf as a value of the language; an object or array is undefined, every number a float."""
    kind = type(found)
    if kind is str or kind is float or kind is bool or found is None:
        return found  # type: ignore[return-value]
    if kind is int:
        try:
            return float(found)  # type: ignore[arg-type]
        except OverflowError:
            return float("inf") if found > 0 else float("-inf")  # type: ignore[operator]
    return UNDEFINED
