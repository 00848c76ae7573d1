"""Real weather, published again by three edge nodes: what each of them publishes, in order.

    edge-1  Seattle, hourly temperatures from June 2010
    edge-2  San Francisco, hourly temperatures from June 2010
    edge-3  Seattle, four years of daily weather

Every reading is telemetry; an urgent reading is an alarm as well. The series come inside
the vega-datasets package. This module reads no clock: the story decides when each message is sent.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MODULE = "weather"
TELEMETRY = f"/messages/modules/{MODULE}/outputs/telemetry"
ALARMS = f"/messages/modules/{MODULE}/outputs/alarms"
TELEMETRY_PRIORITY = 1
ALARM_PRIORITY = 0

SUMMER = "2010/06/01"
HOURLY_SWING_FAHRENHEIT = 2.5
DAILY_STORM_METRES_PER_SECOND = 7.0
DAILY_FLOOD_MILLIMETRES = 25.0


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One line of a series: when it was taken, what was measured, and why it is alarming ("" when it is not)."""

    station: str
    taken: str
    values: Mapping[str, float | str]
    alarm: str


@dataclass(frozen=True, kw_only=True)
class Publication:
    """One message as the publish API takes it, and the priority its route will give it."""

    priority: int
    message: Mapping[str, Any]


def hourly(station: str, text: str) -> Iterator[Reading]:
    """Readings of a `date,temp` series in degrees Fahrenheit, from SUMMER on; a swing within the hour is alarming."""
    before: float | None = None
    for line in csv.DictReader(text.splitlines()):
        degrees = float(line["temp"])
        if line["date"] >= SUMMER:
            swing = 0.0 if before is None else abs(degrees - before)
            alarm = "swing" if swing >= HOURLY_SWING_FAHRENHEIT else ""
            yield Reading(station=station, taken=line["date"], values={"temperature_f": degrees}, alarm=alarm)
        before = degrees


def daily(station: str, text: str) -> Iterator[Reading]:
    """Readings of a `date,precipitation,temp_max,temp_min,wind,weather` series (mm, °C, m/s)."""
    for line in csv.DictReader(text.splitlines()):
        values: dict[str, float | str] = {
            key: float(line[key]) for key in ("precipitation", "temp_max", "temp_min", "wind")
        }
        values["weather"] = line["weather"]
        alarm = ""
        if float(line["wind"]) >= DAILY_STORM_METRES_PER_SECOND:
            alarm = "storm"
        elif float(line["precipitation"]) >= DAILY_FLOOD_MILLIMETRES:
            alarm = "flood"
        yield Reading(station=station, taken=line["date"], values=values, alarm=alarm)


def publications(readings: Iterable[Reading]) -> Iterator[Publication]:
    """Telemetry for every reading, followed by its alarm if it is one."""
    for reading in readings:
        body = {"station": reading.station, "taken": reading.taken, **reading.values}
        yield Publication(
            priority=TELEMETRY_PRIORITY,
            message={"source": TELEMETRY, "properties": {"station": reading.station}, "body": body},
        )
        if reading.alarm:
            yield Publication(
                priority=ALARM_PRIORITY,
                message={
                    "source": ALARMS,
                    "properties": {"station": reading.station, "level": "alarm", "kind": reading.alarm},
                    "body": {**body, "alarm": reading.alarm},
                },
            )


def parts(items: Sequence[Publication], shares: Sequence[int]) -> list[list[Publication]]:
    """Cut `items` into consecutive parts of these sizes; raises ValueError when there are too few."""
    if sum(shares) > len(items):
        raise ValueError(f"{len(items)} publications are too few for parts of {list(shares)}")
    found: list[list[Publication]] = []
    start = 0
    for share in shares:
        found.append(list(items[start : start + share]))
        start += share
    return found


def series() -> dict[str, list[Publication]]:
    """The messages of each node, from the series in the installed package."""
    from vega_datasets import data

    def text(name: str) -> str:
        with open(getattr(data, name).filepath, encoding="utf-8") as file:
            return file.read()

    return {
        "edge-1": list(publications(hourly("seattle", text("seattle_temps")))),
        "edge-2": list(publications(hourly("san-francisco", text("sf_temps")))),
        "edge-3": list(publications(daily("seattle-harbour", text("seattle_weather")))),
    }
