"""The state of the data plan: in ``GET /v1/status``, in words for the hub, and as metrics."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from fairlead_edge.metrics import Family, single
from fairlead_edge.outbox.plan.gate import HeldUntil, PlanGate, Why

IN_WORDS: Final = {
    Why.WINDOW: "its hours ([[windows]]) are over",
    Why.DAY: "[link] bytes_per_day is used up",
    Why.RATE: "[link] bytes_per_second is reached",
}


class PlanLimits(msgspec.Struct, frozen=True):
    """The configured limits; 0 means none."""

    bytes_per_day: int = 0
    bytes_per_second: int = 0
    priorities: tuple[int, ...] = ()
    """Priorities that have windows."""

    @property
    def any(self) -> bool:
        """Whether anything may be held back."""
        return bool(self.bytes_per_day or self.bytes_per_second or self.priorities)


class LineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state at one moment; ``carried`` has the bytes ``up``, ``down``, sent ``again`` and of ``headers`` since the
    agent started."""

    date: str = ""
    used: int = 0
    carried: Mapping[str, int] = {}
    limits: PlanLimits = PlanLimits()
    used_up: bool = False
    next_day_seconds: float = 0.0
    opens: Mapping[int, float] = {}
    """By priority that is outside its hours: when they begin again, in Unix time."""


def of(gate: PlanGate, carried: Mapping[str, int], limits: PlanLimits, now: float) -> LineStatus:
    count, ends = gate.count, gate.day_ends
    return LineStatus(
        date="" if count is None else count.date,
        used=0 if count is None else count.used,
        carried=carried,
        limits=limits,
        used_up=gate.is_used_up,
        next_day_seconds=0.0 if ends is None else round(max(0.0, ends - now), 1),
        opens=gate.opens() if limits.priorities else {},
    )


def body(line: LineStatus) -> dict[str, Any]:
    """``link.plan`` of ``GET /v1/status``; limits that are not set are null."""
    return {
        "date": line.date,
        "bytesToday": line.used,
        "bytesPerDay": line.limits.bytes_per_day or None,
        "bytesPerSecond": line.limits.bytes_per_second or None,
        "usedUp": line.used_up,
        "nextDaySeconds": line.next_day_seconds,
    }


def held(found: HeldUntil | None, now: float, opens: float | None = None) -> dict[str, Any] | None:
    """``held`` of a queue; null while it may send.  ``opens``: when its hours begin again, in Unix time."""
    if found is None:
        return None
    seconds = round(max(0.0, found.until - now), 1)
    reason = IN_WORDS[found.why]
    if found.why is Why.WINDOW and opens is not None:
        reason += f" until {datetime.fromtimestamp(opens, UTC):%Y-%m-%d %H:%M} UTC"
    return {"by": found.why.value, "reason": reason, "askedAgainInSeconds": seconds}


def families(line: LineStatus, held: Mapping[tuple[str, str], HeldUntil]) -> list[Family]:
    """The metrics; ``held`` is keyed by the labels endpoint and priority."""
    return [
        Family(
            name="fairlead_edge_link_carried_bytes_total",
            kind="counter",
            help="bytes on the link since startup: up, down, again (TCP retransmissions), headers",
            labels=("part",),
            samples={(part,): size for part, size in line.carried.items()},
        ),
        single("fairlead_edge_link_day_bytes", "gauge", "bytes on the link since the day began", line.used),
        single(
            "fairlead_edge_link_day_bytes_max",
            "gauge",
            "[link] bytes_per_day; 0 if there is no limit",
            line.limits.bytes_per_day,
        ),
        single("fairlead_edge_link_day_used_up", "gauge", "1 while messages wait for the next day", line.used_up),
        Family(
            name="fairlead_edge_queue_held",
            kind="gauge",
            help="1 while waiting messages are held back, by reason: window, day or rate",
            labels=("endpoint", "priority", "by"),
            samples={(endpoint, priority, each.why.value): 1.0 for (endpoint, priority), each in held.items()},
        ),
    ]
