"""A place in a topic as people write it: a message id, a time, or how long ago."""

from __future__ import annotations

import datetime
import re
import time
from typing import Any

import click

HELP = "A message id (40 hex digits), milliseconds since 1970, a time as 2026-11-20T12:00Z, or how long ago as 15m."
ID_CHARS = 40
_AGO = re.compile(r"(\d{1,9})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class PlaceParameter(click.ParamType[str | int]):
    """An id as it is, or milliseconds since 1970."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        if isinstance(value, int):
            return value
        text = str(value)
        if len(text) == ID_CHARS:
            return text
        if text.isdecimal() and len(text) <= 18:
            return int(text)
        if ago := _AGO.fullmatch(text):
            return max(0, int((time.time() - int(ago[1]) * _SECONDS[ago[2]]) * 1000))
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is none of these: {HELP}", param, ctx)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return max(0, int(moment.timestamp() * 1000))


def is_beyond(message_id: str, end: str | int | None) -> bool:
    """Whether a message lies behind `end`: behind that message, or at that time and later."""
    if end is None:
        return False
    return int(message_id[:16], 16) >= end if isinstance(end, int) else message_id > end.lower()
