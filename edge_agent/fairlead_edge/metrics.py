"""Prometheus text format in a few lines; a library would slow down the agent's start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One metric: its samples by label values (a tuple in the order of ``labels``)."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: Mapping[tuple[str, ...], float]
    labels: tuple[str, ...] = ()


def single(name: str, kind: Literal["counter", "gauge"], help: str, value: float) -> Family:
    """A metric without labels."""
    return Family(name=name, kind=kind, help=help, samples={(): value})


def render(families: Iterable[Family]) -> str:
    """The families in text exposition format 0.0.4."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.help}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for values, value in sorted(family.samples.items()):
            pairs = ",".join(f'{name}="{_escape(text)}"' for name, text in zip(family.labels, values, strict=True))
            lines.append(f"{family.name}{{{pairs}}} {_number(value)}" if pairs else f"{family.name} {_number(value)}")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
