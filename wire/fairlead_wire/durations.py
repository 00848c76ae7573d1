"""Durations as text for people."""

from __future__ import annotations

_SECONDS = {"s": 1, "min": 60, "h": 3600}


def span(seconds: float) -> str:
    """Format a duration: "0.4 s", "12 s", "3 min 20 s", "5 h 2 min", "11 d 4 h".

    A negative duration, as two machines' clocks may produce, is shown as 0.
    """
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, below, size in (("d", "h", 86_400), ("h", "min", 3600), ("min", "s", 60)):
        if whole >= size:
            rest = whole % size // _SECONDS[below]
            return f"{whole // size} {unit} {rest} {below}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"
