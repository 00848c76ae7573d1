"""Dates and timestamps as bodies write them: does Spark read a text, and does it lie in the years 1 to 9999 (UTC)?

A pattern says it, also of the 30th of February and of an offset of 19 hours: so msgspec asks it of each value while it
decodes, of one that is said twice too. What no pattern sees, the names of time zones and the ends of the calendar, is
looked at here. A zone stands behind seconds only, as Spark wants it, but for ``GMT``, which it passes over.
"""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo

SECONDS_MIN, SECONDS_MAX = -62_135_596_800, 253_402_300_799
_MONTHS_31, _MONTHS, _FEBRUARY = "(?:0?[13578]|1[02])", "(?:0?[1-9]|1[0-2])", "0?2"
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAY = (
    f"(?:(?!0000)[0-9]{{4}}-(?:{_MONTHS}-(?:0?[1-9]|1[0-9]|2[0-8])|(?!0?2-){_MONTHS}-(?:29|30)|{_MONTHS_31}-31)"
    f"|{_LEAP_YEAR}-{_FEBRUARY}-29)"
)
_MINUTE = r"(?:[01]?[0-9]|2[0-3]):[0-5]?[0-9]"
_SECOND = r":[0-5]?[0-9](?:\.[0-9]{1,6}0*)?"
# At most 18 hours.
_OFFSET = (
    "[+-](?:(?:0?[0-9]|1[0-7])(?::[0-5]?[0-9]|:[0-5][0-9]:[0-5][0-9])?|18(?::00?|:00:00)?"
    "|(?:0[0-9]|1[0-7])(?:[0-5][0-9]){1,2}|18(?:00){1,2})"
)
_ZONE = rf" ?(?:Z|(?:UTC|GMT|UT)?{_OFFSET}|[A-Za-z_]+(?:/[A-Za-z0-9_+-]+)*)"
# How programs write them; the rest of a pattern takes these too, in three times as long.
_USUAL_DAY = "[12][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
_USUAL = rf"{_USUAL_DAY}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,6}})?(?:Z|\+00:00)\Z"
DATE = rf"^(?:{_USUAL_DAY}\Z|{_DAY}\Z)"
TIMESTAMP = rf"^(?:{_USUAL}|{_DAY}(?:[T ]{_MINUTE}(?:{_SECOND}(?:{_ZONE})?| ?GMT)?)?\Z)"
TIMESTAMP_NTZ = rf"^{_DAY}(?:[T ]{_MINUTE}(?:{_SECOND})?)?\Z"
_NAMED_ZONE = re.compile(r"[A-Z_a-z]+(?:/[A-Za-z0-9_+-]+)*\Z")
# Java's own short names, and what it knows beside the zones everybody has.
_JAVA_ZONES = frozenset(
    """UT ACT AET AGT ART AST BET BST CAT CNT CST CTT EAT ECT EST HST IET IST JST MIT MST NET NST PLT PNT PRT PST SST
    VST SystemV/AST4 SystemV/AST4ADT SystemV/CST6 SystemV/CST6CDT SystemV/EST5 SystemV/EST5EDT SystemV/HST10
    SystemV/MST7 SystemV/MST7MDT SystemV/PST8 SystemV/PST8PDT SystemV/YST9 SystemV/YST9YDT""".split()  # noqa: SIM905
)
_NOT_JAVAS = frozenset(["Factory", "GMT+0", "GMT-0", "ROC", "localtime"])


def is_timestamp(value: str | int) -> bool:
    """Of what ``TIMESTAMP`` took, or of seconds since 1970: nothing beyond the calendar, and no unknown zone."""
    if not isinstance(value, str):
        return True
    # Only next to the ends of the calendar can a zone lead out of it.
    if value[:5] in ("0001-", "9999-") and not _is_in_years(value):
        return False
    if value[-1:] == "Z" and value[-2] in "0123456789. " and "/" not in value:
        return True
    named = _NAMED_ZONE.search(value)
    return named is None or is_zone(named[0])


def is_zone(name: str) -> bool:
    """The name of a time zone, as Java knows them."""
    known = _zones()
    return not known or name in known


@functools.cache
def _zones() -> frozenset[str]:
    """Empty where this machine has no list of zones: then Spark alone decides."""
    held = zoneinfo.available_timezones()
    return frozenset((held | _JAVA_ZONES) - _NOT_JAVAS) if held else frozenset()


def _is_in_years(text: str) -> bool:
    try:
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            moment.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return False
    return True
