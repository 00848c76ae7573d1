"""How long something shall be good: 90s, 30m, 12h, 7d."""

from __future__ import annotations

import datetime
import re

import click

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FORM = re.compile(r"([1-9][0-9]{0,8})([smhd])")


class Lifetime(click.ParamType[datetime.timedelta]):
    """Between two limits, both allowed."""

    name = "lifetime"

    def __init__(self, least: datetime.timedelta, most: datetime.timedelta) -> None:
        self._least, self._most = least, most

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "TIME"

    def convert(
        self, value: str | datetime.timedelta, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime.timedelta:
        if isinstance(value, datetime.timedelta):
            return value
        found = _FORM.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is no time; write it like 90s, 30m, 12h or 7d", param, ctx)
        wanted = datetime.timedelta(seconds=int(found[1]) * UNITS[found[2]])
        if not self._least <= wanted <= self._most:
            self.fail(f"{value} must be from {_text(self._least)} to {_text(self._most)}", param, ctx)
        return wanted


def _text(time: datetime.timedelta) -> str:
    seconds = int(time.total_seconds())
    unit = next(unit for unit in ("d", "h", "m", "s") if seconds % UNITS[unit] == 0)
    return f"{seconds // UNITS[unit]}{unit}"
