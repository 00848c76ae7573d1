"""What ``[[windows]]`` says: values, checked for sense; a time zone is looked up when windows are made of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, tzinfo
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from fairlead_edge.outbox.plan.windows import EVERY_DAY, MINUTES, HourWindow
from fairlead_wire.validation import mistakes, route_manifest
from fairlead_wire.validation.mistakes import Mistake, shown

LINK_BYTES_MAX: Final = 10**15
"""No line carries more in a day."""
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00", re.ASCII)
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]{1,64}(/[A-Za-z0-9_+-]{1,64}){0,3}", re.ASCII)


class WindowSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hours in which messages of some priorities may leave; several windows add up, and a priority without one may
    always leave."""

    priorities: Annotated[list[Annotated[int, Meta(ge=0, le=route_manifest.DEFAULT_PRIORITY)]], Meta(min_length=1)]
    """Priorities of routes, 0 to 9; 2000000000 is that of a route without one."""
    begins: str = msgspec.field(name="from")
    """When it opens, as `22:00`, by the wall clock of `timezone`."""
    to: str
    """When it closes; before `from`: on the next day. `24:00` is midnight."""
    timezone: str = "UTC"
    """A name such as `Europe/Berlin`; summer time is followed."""
    days: Annotated[list[Weekday], Meta(min_length=1)] | None = None
    """Only on these days of the week, `mon` to `sun`: those on which the window opens."""

    def __post_init__(self) -> None:
        mistakes.refuse(self._wrong())

    def _wrong(self) -> Iterator[Mistake]:
        for key, value in (("from", self.begins), ("to", self.to)):
            if not _TIME.fullmatch(value) or (key == "from" and value == "24:00"):
                yield Mistake(key, f"must be a time of day such as 22:00, is {shown(value)}")
        if self.begins == self.to:
            yield Mistake("to", f"must differ from `from`, is {shown(self.to)}")
        yield from zone_mistakes("timezone", self.timezone)
        for priority in self.priorities:
            if route_manifest.PRIORITY_MAX < priority < route_manifest.DEFAULT_PRIORITY:
                said = f"must be 0 to {route_manifest.PRIORITY_MAX}, or {route_manifest.DEFAULT_PRIORITY}"
                yield Mistake("priorities", f"{said} for routes without one, has {priority}: no route has that")


def zone_mistakes(key: str, name: str) -> Iterator[Mistake]:
    """What is wrong with the name of a time zone."""
    if zone(name) is None:
        said = "must be the name of a time zone such as Europe/Berlin that this machine knows (package tzdata)"
        yield Mistake(key, f"{said}, is {shown(name)}")


def zone(name: str) -> tzinfo | None:
    """None: there is no such zone here."""
    if name == "UTC":  # also where no package of zones is installed
        return UTC
    if not _ZONE.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not found, a file of something else, a folder
        return None


def windows_by_priority(windows: Iterable[WindowSettings]) -> dict[int, list[HourWindow]]:
    """Of settings that are right."""
    found: dict[int, list[HourWindow]] = {}
    for each in windows:
        days = EVERY_DAY if each.days is None else frozenset(WEEKDAYS.index(day) for day in each.days)
        window = HourWindow(
            begins=_minute(each.begins), ends=_minute(each.to), zone=zone(each.timezone) or UTC, days=days
        )
        for priority in each.priorities:
            found.setdefault(priority, []).append(window)
    return found


def _minute(text: str) -> int:
    hours, minutes = text.split(":")
    return min(MINUTES, int(hours) * 60 + int(minutes))
