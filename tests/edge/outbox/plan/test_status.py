"""What people see of the data plan."""

from __future__ import annotations

from datetime import UTC, datetime

from fairlead_edge.outbox.plan import status
from fairlead_edge.outbox.plan.gate import HeldUntil, PlanGate, Why
from fairlead_edge.outbox.plan.status import PlanLimits

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()


def test_the_day_its_limit_and_the_next_day() -> None:
    gate = PlanGate(bytes_per_day=1000)
    gate.look(now=0.0, wall=NOON, carried=950)
    line = status.of(gate, {"up": 950}, PlanLimits(1000), 0.0)
    assert status.body(line) == {
        "date": "2026-11-23",
        "bytesToday": 950,
        "bytesPerDay": 1000,
        "bytesPerSecond": None,
        "usedUp": True,
        "nextDaySeconds": 43200.0,
    }


def test_why_a_queue_is_held() -> None:
    assert status.held(None, 0.0) is None
    found = status.held(HeldUntil(Why.WINDOW, 30.0), 10.0)
    assert found is not None and found["by"] == "window" and found["askedAgainInSeconds"] == 20.0
