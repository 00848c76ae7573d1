"""The curves by which delays grow in a policy's backoff phase, and what Zaqar makes of the same names.

index 0 ──▶ low  …  index count - 1 ──▶ high
"""

from __future__ import annotations

import math
from typing import Literal

ZAQAR_STEP_SECONDS = 5
"""Zaqar derives the number of backoff retries from the delays with this constant; it is configured nowhere."""

Curve = Literal["linear", "arithmetic", "geometric", "exponential"]


def delay(curve: Curve, low: float, high: float, index: int, count: int) -> float:
    """Delay ``index`` (from 0) of ``count``: the first is ``low``, the last ``high``, exactly."""
    low, high = float(low), float(high)
    if index == 0:
        return low
    if index == count - 1:
        return high
    match curve:
        case "linear":
            seconds = low + (high - low) * index / (count - 1)
        case "arithmetic":
            seconds = low + (high - low) * index * (index + 1) / (count * (count - 1))
        case "geometric" | "exponential":
            # By logarithms: high / low could overflow, a difference of logarithms cannot.
            seconds = math.exp(math.log(low) + (math.log(high) - math.log(low)) * index / (count - 1))
    return min(max(seconds, low), high)


def zaqar_retries(curve: Curve, low: float, high: float) -> int:
    """As Zaqar: one retry for each five seconds of span; its linear curve counts a started step, the others do not."""
    steps = (high - low) / ZAQAR_STEP_SECONDS
    return math.ceil(steps) if curve == "linear" else math.floor(steps)


def zaqar_delay(curve: Curve, low: int, high: int, index: int, count: int) -> float:
    """What Zaqar really waits: whole seconds, cut off, in its own order of floating-point steps, or they differ by one.

    A ``count`` of at least 2 follows from its validation (a span of ten seconds).
    """
    number = index + 1
    match curve:
        case "linear":
            return low + index * ZAQAR_STEP_SECONDS
        case "arithmetic":
            step = 2.0 * (high - low) / (count * (count - 1))
            return int(low + index * number * step / 2)
        case "geometric":
            return int(low * math.pow(_zaqar_ratio(low, high, count), index))
        case "exponential":
            ratio = _zaqar_ratio(low, high, count)
            return int(low / ratio * math.pow(ratio, number))


def _zaqar_ratio(low: int, high: int, count: int) -> float:
    return math.pow(10, math.log10(high / low) / (count - 1))
