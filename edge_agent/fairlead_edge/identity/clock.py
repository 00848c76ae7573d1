"""Whether this device's clock can be trusted, and if not, what is the earliest that the current time can be.

                     earliest                              latest that is trusted
    ── 1970 ──────────┬──────────────── now ──────────────────┬───────── 2099 ──
     behind: not      │  trusted: certificates are            │  ahead: not trusted
     trusted          │  checked as usual                     │
                      └ max(build date, own certificate's not-before, time of the last session [+ boot time since])

While the clock is not trusted, the dates of certificates are checked against ``earliest`` alone: certificates that
expired before it are refused, and names and authorities are checked as always.  A certificate that expired later is
accepted until the clock is set, so an old certificate of the hub may pass.  Within one boot the time since the last
session is measured by the boot clock; across boots only the lower bound remains.
"""

from __future__ import annotations

import datetime
from typing import Final

import msgspec

from fairlead_edge.outbox.age import ClockReading

BUILD_DATE: Final = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
"""The current time cannot be earlier than this."""
BEHIND_SECONDS: Final = 3600.0
"""Tolerance for a slow clock: wall clock and boot clock drift apart in a session of months."""
STEP_SECONDS: Final = 86_400.0
"""A wall clock that has advanced this much more than the boot clock since the last session was set, perhaps wrongly."""
AHEAD_SECONDS: Final = 10 * 365.25 * 86_400.0
"""No device is expected back after a longer time, with a certificate and a program that old."""


class Anchor(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A lower bound of the time when a session opened, kept on disk.  ``wall_seconds``: a Unix time."""

    wall_seconds: float
    boot_id: str
    boot_seconds: float


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """``distrust``: why the clock is not trusted; empty: it is.  ``earliest``: a Unix time."""

    earliest: float
    distrust: str = ""


def judge(reading: ClockReading, anchor: Anchor | None, *, own_not_before: float | None) -> Judgement:
    """Judge a clock reading.  ``own_not_before``: from the node's certificate, because the hub knew the time."""
    floor = max(BUILD_DATE.timestamp(), own_not_before or 0.0)
    measured = None
    if anchor is not None:
        floor = max(floor, anchor.wall_seconds)
        if anchor.boot_id == reading.boot_id:
            measured = anchor.wall_seconds + max(0.0, reading.boot_seconds - anchor.boot_seconds)
    earliest = floor if measured is None else max(floor, measured)
    now = reading.wall_seconds
    latest = measured + STEP_SECONDS if measured is not None else earliest + AHEAD_SECONDS
    is_behind, is_ahead = now < earliest - BEHIND_SECONDS, now > max(latest, earliest)
    if not is_behind and not is_ahead:
        return Judgement(earliest=earliest)
    truth = f"it is {_day(earliest)} or later" if measured is None else f"it is about {_day(earliest)}"
    return Judgement(earliest=earliest, distrust=f"the clock shows {_day(now)}, and {truth}")


def anchored(reading: ClockReading, judgement: Judgement, *, peer_not_before: float | None) -> Anchor:
    """The anchor of a session that has just opened.

    A trusted clock has found the hub's certificate valid; otherwise only ``peer_not_before``, its start, is a bound.
    """
    known = judgement.earliest if judgement.distrust else max(reading.wall_seconds, judgement.earliest - BEHIND_SECONDS)
    return Anchor(
        wall_seconds=max(known, peer_not_before or 0.0),
        boot_id=reading.boot_id,
        boot_seconds=reading.boot_seconds,
    )


def _day(moment: float) -> str:
    try:
        return datetime.datetime.fromtimestamp(moment, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return f"{moment:.0f} s after 1970"
