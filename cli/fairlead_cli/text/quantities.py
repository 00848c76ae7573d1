"""Quantities for people: ages (45s, 3m20s, 47m, 5h12m, 3d4h, 12d), counts, and latencies to a table."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

from fairlead_wire import durations
from fairlead_wire.validation.route_manifest import priority_shown

Clock = Callable[[], datetime.datetime]


def utc() -> datetime.datetime:
    """The machine's clock."""
    return datetime.datetime.now(datetime.UTC)


def since(time: object, now: datetime.datetime) -> str:
    """The age of an RFC 3339 time; "" if it is empty or not a time."""
    if not isinstance(time, str) or not time:
        return ""
    try:
        begin = datetime.datetime.fromisoformat(time)
    except ValueError:
        return ""
    if begin.tzinfo is None:
        begin = begin.replace(tzinfo=datetime.UTC)
    return short((now - begin).total_seconds())


def short(seconds: float) -> str:
    """At most two units, the smaller one only while it matters; the steps are kubectl's."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86_400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 365 * 8 else f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def of(number: int, noun: str, plural: str = "") -> str:
    """``plural``: if it is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def size(count: int) -> str:
    """Bytes on a disk, in the largest unit that leaves at least 1: 512 bytes, 15.9 KiB, 768 MiB."""
    return _size(count, 1024, ("KiB", "MiB", "GiB", "TiB"))


def traffic(count: int) -> str:
    """Bytes on a line, in the units of data plans: 2.3 MB."""
    return _size(count, 1000, ("kB", "MB", "GB", "TB"))


def _size(count: int, step: int, units: Sequence[str]) -> str:
    for exponent in range(len(units), 0, -1):
        if count >= step**exponent:
            return f"{count / step**exponent:.1f}".removesuffix(".0") + f" {units[exponent - 1]}"
    return of(count, "byte")


NOT_MEASURED = "-"


def line(measured: dict[str, Any]) -> str:
    """The latency of one priority, as reported by agents and hubs."""
    priority = priority_shown(measured["priority"])
    half, most = _spans(measured)
    as_of = f", as of {measured['asOf']}" if measured.get("asOf") else ""
    return f"to table  priority {priority}: half within {half}, 95 % within {most}; {_count(measured)}{as_of}"


def cell(found: Sequence[dict[str, Any]]) -> str:
    """Of all priorities: median and 95th percentile, in one word: "0:0.4s/1.2s,default:12s/3min20s"."""
    cells = (f"{priority_shown(each['priority'])}:{'/'.join(_spans(each))}" for each in found)
    return ",".join(cells).replace(" ", "") or NOT_MEASURED


def _spans(measured: dict[str, Any]) -> tuple[str, str]:
    return durations.span(measured["p50Seconds"]), durations.span(measured["p95Seconds"])


def _count(measured: dict[str, Any]) -> str:
    from fairlead_wire import message

    every = measured["measured"]
    window = measured.get("window", min(every, message.TO_TABLE_WINDOW))
    return f"{every} measured" if window >= every else f"the latest {window} of {every} measured"
