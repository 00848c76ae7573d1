"""Is the device's clock right?  It is used to validate certificates and to date messages."""

from __future__ import annotations

import ctypes
import datetime
from collections.abc import Iterator
from typing import Final

from fairlead_cli.doctor.examination import Finding, ok, problem, warning

YEAR_MIN: Final = 2026
YEAR_MAX: Final = 2099
SKEW_WARNING_SECONDS: Final = 10.0
"""The hub's time has whole seconds, and its response takes time to arrive."""
SKEW_PROBLEM_SECONDS: Final = 300.0
SYNCHRONISE: Final = "synchronise the clock (systemd-timesyncd or chrony)"


def judge(now: datetime.datetime, synchronised: bool | None) -> Iterator[Finding]:
    """``synchronised`` as reported by the kernel; None if it cannot be asked."""
    stamp = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    if not YEAR_MIN <= now.year <= YEAR_MAX:
        text = f"the clock says {stamp}, which cannot be right: no certificate is valid at that time"
        yield problem("clock", text, f"set the clock, then {SYNCHRONISE}")
    else:
        yield ok("clock", f"the clock says {stamp}")
    if synchronised is None:
        yield ok("clock.synchronised", "this system does not report whether its clock is synchronised")
    elif synchronised:
        yield ok("clock.synchronised", "the kernel says that the clock is synchronised")
    else:
        yield warning("clock.synchronised", "the kernel says that the clock is not synchronised", SYNCHRONISE)


def judge_skew(hub: datetime.datetime | None, here: datetime.datetime) -> Iterator[Finding]:
    """Compare with the ``Date`` of the hub's response; no finding if it sent none."""
    if hub is None:
        return
    seconds = (here - hub).total_seconds()
    side = "ahead of" if seconds > 0 else "behind"
    text = f"the clock is {abs(seconds):.0f} s {side} the hub's"
    if abs(seconds) > SKEW_PROBLEM_SECONDS:
        yield problem("clock.skew", text, SYNCHRONISE)
    elif abs(seconds) > SKEW_WARNING_SECONDS:
        yield warning("clock.skew", text, SYNCHRONISE)
    else:
        yield ok("clock.skew", f"the clock is within {SKEW_WARNING_SECONDS:.0f} s of the hub's")


_TIMEX_BYTES: Final = 512
"""Larger than ``struct timex`` on any platform; all zeros only reads and changes nothing."""
_TIME_ERROR: Final = 5
"""What ``adjtimex`` returns when the clock is not synchronised."""


# ── asking the kernel ─────────────────────────────────────────────────────────────────────────────────────────────────


def synchronised() -> bool | None:
    """None if the system cannot be asked."""
    try:
        answer = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if answer < 0 else answer != _TIME_ERROR
