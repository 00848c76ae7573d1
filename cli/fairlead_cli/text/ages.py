"""How long ago something was, as kubectl says it: 45s, 3m20s, 47m, 5h12m, 3d4h, 12d."""

from __future__ import annotations

import datetime
from collections.abc import Callable

Clock = Callable[[], datetime.datetime]


def utc() -> datetime.datetime:
    """The clock of the machine."""
    return datetime.datetime.now(datetime.UTC)


def since(time: object, now: datetime.datetime) -> str:
    """From an RFC 3339 time of the API; "" for none and for what is no time."""
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
    """Two units at most, the smaller one only while it matters: the steps are kubectl's own."""
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
