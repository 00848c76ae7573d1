"""A dashboard's panels: what the tables beside this file say of each, and Grafana's JSON of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 8, 7
COLUMNS = 24 // WIDTH
RATE = "[$__rate_interval]"


@dataclass(frozen=True)
class Panel:
    """`queries`: each with the text of its legend."""

    title: str
    unit: str
    text: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    alarm: float | None = None
    """From here on it is red."""


@dataclass(frozen=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


def one(title: str, unit: str, text: str, query: str, legend: str = "", alarm: float | None = None) -> Panel:
    return Panel(title, unit, text, ((query, legend or title),), alarm=alarm)


def number(title: str, unit: str, text: str, query: str, alarm: float | None = None) -> Panel:
    """One big number."""
    return Panel(title, unit, text, ((query, title),), kind="stat", alarm=alarm)


def per_second(metric: str, by: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{RATE}))" if by else f"sum(rate({metric}{RATE}))"


def quantiles(metric: str, by: str = "") -> tuple[tuple[str, str], ...]:
    """Half, 95 and 99 of a hundred."""
    groups, legend = ("le, " + by, "{{" + by + "}} ") if by else ("le", "")
    inner = f"sum by ({groups}) (rate({metric}_bucket{RATE}))"
    return tuple(
        (f"histogram_quantile({share}, {inner})", f"{legend}{name}")
        for share, name in ((0.5, "median"), (0.95, "95 %"), (0.99, "99 %"))
    )


def panel(number: int, x: int, y: int, said: Panel) -> dict[str, Any]:
    """As Grafana reads it."""
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if said.alarm is not None:
        steps.append({"color": "red", "value": said.alarm})
    return {
        "id": number,
        "type": said.kind,
        "title": said.title,
        "description": said.text,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": x, "y": y},
        "fieldConfig": {
            "defaults": {
                "unit": said.unit,
                "min": 0,
                "thresholds": {"mode": "absolute", "steps": steps},
                "custom": {"thresholdsStyle": {"mode": "line" if said.alarm is not None else "off"}}
                if said.kind == "timeseries"
                else {},
            },
            "overrides": [],
        },
        "targets": [
            {"refId": chr(ord("A") + place), "expr": query, "legendFormat": legend}
            for place, (query, legend) in enumerate(said.queries)
        ],
    }


def panels(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Under each heading from left to right."""
    made: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        heading = {"h": 1, "w": 24, "x": 0, "y": y}
        made.append(
            {
                "id": len(made) + 1,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": heading,
                "panels": [],
            }
        )
        y += 1
        for place, each in enumerate(row.panels):
            made.append(panel(len(made) + 1, WIDTH * (place % COLUMNS), y + HEIGHT * (place // COLUMNS), each))
        y += HEIGHT * -(-len(row.panels) // COLUMNS)
    return made
