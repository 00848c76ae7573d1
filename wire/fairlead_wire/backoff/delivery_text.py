"""A delivery policy in one line, for people who look at a status.

DeliveryPolicy ─summary→ "7 retries from 1 to 60 s (exponential), then 190000 every 60 s; jitter equal"
"""

from __future__ import annotations

from fairlead_wire.backoff import delivery
from fairlead_wire.backoff.delivery import DeliveryPolicy

CURVE_LEFT_OUT = 2
"""With fewer retries than this the curve has no shape."""


def summary(policy: DeliveryPolicy) -> str:
    """What it does when nothing answers otherwise, and what ends it."""
    low, high = f"{policy.minimum_delay:g}", f"{policy.maximum_delay:g}"
    steps: list[str] = []
    for phase, count in delivery.phases(policy):
        if not count:
            continue
        match phase:
            case "immediate":
                steps.append(f"{_counted(count, steps)} at once")
            case "pre_backoff":
                steps.append(f"{_counted(count, steps)} every {low} s")
            case "backoff" if count < CURVE_LEFT_OUT:
                steps.append(f"{_counted(count, steps)} after {low} s")
            case "backoff":
                steps.append(f"{_counted(count, steps)} from {low} to {high} s ({policy.retry_backoff_function})")
            case "post_backoff":
                steps.append(f"{_counted(count, steps)} every {high} s")
    limits = []
    if policy.retries_max is not None:
        limits.append(f"at most {_counted(policy.retries_max, [])}")
    if policy.total_seconds_max is not None:
        limits.append(f"at most {policy.total_seconds_max:g} s of waiting")
    if policy.jitter != "none":
        limits.append(f"jitter {policy.jitter}")
    return "; ".join([", then ".join(steps) or "no retries", *limits])


def _counted(count: int, before: list[str]) -> str:
    """The first one says what is counted."""
    if before:
        return str(count)
    return "1 retry" if count == 1 else f"{count} retries"
