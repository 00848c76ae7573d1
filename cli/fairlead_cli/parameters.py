"""Types of values that several commands share: a lifetime, a position in a topic, a delivery policy, an address."""

from __future__ import annotations

import datetime
import json
import re
import time
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.text import quantities
from fairlead_wire.validation import addresses

if TYPE_CHECKING:
    from fairlead_wire.delivery_policy import DeliveryPolicy


UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FORM = re.compile(r"([1-9][0-9]{0,8})([smhd])")


class Lifetime(click.ParamType[datetime.timedelta]):
    """A duration between two limits, inclusive."""

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
            self.fail(f"{value!r} is not a duration; write it like 90s, 30m, 12h or 7d", param, ctx)
        wanted = datetime.timedelta(seconds=int(found[1]) * UNITS[found[2]])
        if not self._least <= wanted <= self._most:
            self.fail(f"{value} must be from {_text(self._least)} to {_text(self._most)}", param, ctx)
        return wanted


def _text(time: datetime.timedelta) -> str:
    seconds = int(time.total_seconds())
    unit = next(unit for unit in ("d", "h", "m", "s") if seconds % UNITS[unit] == 0)
    return f"{seconds // UNITS[unit]}{unit}"


MOMENT_FORMS = "milliseconds since 1970, a time such as 2026-11-20T12:00Z, or an age such as 15m"
PLACE_FORMS = f"a message id (40 hex digits), {MOMENT_FORMS}"
PLACE_HELP = f"{PLACE_FORMS[0].upper()}{PLACE_FORMS[1:]}."
ID_CHARS = 40
_AGO = re.compile(r"(\d{1,9})([smhd])")


class PlaceParameter(click.ParamType[str | int]):
    """An id, or milliseconds since 1970."""

    name = "place"
    forms = PLACE_FORMS

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        if isinstance(value, int):
            return value
        text = str(value)
        if len(text) == ID_CHARS:
            return text
        if text.isdecimal() and len(text) <= 18:
            return int(text)
        if ago := _AGO.fullmatch(text):
            return max(0, int((time.time() - int(ago[1]) * UNITS[ago[2]]) * 1000))
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} must be {self.forms}", param, ctx)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return max(0, int(moment.timestamp() * 1000))


class MomentParameter(PlaceParameter):
    """A time; converted to milliseconds since 1970."""

    name = "time"
    forms = MOMENT_FORMS

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = super().convert(value, param, ctx)
        if isinstance(found, str):
            self.fail(f"{value!r} is the id of a message; write a time, or an age such as 15m", param, ctx)
        return found


def is_beyond(message_id: str, end: str | int | None) -> bool:
    """Is a message past `end`: after that message, or at that time or later?"""
    if end is None:
        return False
    return int(message_id[:16], 16) >= end if isinstance(end, int) else message_id > end.lower()


class Policy(click.ParamType["DeliveryPolicy"]):
    """A delivery policy as JSON."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> DeliveryPolicy:
        from fairlead_wire import delivery_policy
        from fairlead_wire.validation.mistakes import Wrong

        if isinstance(value, delivery_policy.DeliveryPolicy):
            return value
        try:
            return delivery_policy.parse(json.loads(value))
        except Wrong as error:
            self.fail(error.sentence, param, ctx)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        except RecursionError:
            self.fail("nested too deeply", param, ctx)


def policy_shown(policy: DeliveryPolicy) -> str:
    """A short description: how many retries, and between which delays."""
    from fairlead_wire import delivery_policy

    count = delivery_policy.retries(policy)
    if not count:
        return "no retries"
    retries = quantities.of(count, "retry", "retries")
    return f"{retries}, delays of {policy.minimum_delay:g} to {policy.maximum_delay:g} s"


class Url(click.ParamType[str]):
    """A URL with one of ``schemes``, without a trailing slash; errors do not show a possible password."""

    name = "URL"

    def __init__(self, *schemes: str) -> None:
        self._schemes = schemes or addresses.HTTP

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return addresses.url(str(value), self._schemes)
        except ValueError as error:
            self.fail(str(error), param, ctx)
