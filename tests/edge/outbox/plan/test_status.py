"""What people see of the data plan."""

from __future__ import annotations

from datetime import UTC, datetime

from fairlead_edge.metrics import render
from fairlead_edge.outbox.plan import status
from fairlead_edge.outbox.plan.gate import HeldUntil, PlanGate, Why
from fairlead_edge.outbox.plan.status import LineStatus, PlanLimits

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()


def test_the_day_its_limit_and_the_next_day() -> None:
    gate = PlanGate(bytes_per_day=1000)
    gate.update(now=0.0, wall=NOON, carried=950)
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
    found = status.held(HeldUntil(Why.WINDOW, 30.0), 10.0, 1_795_989_600.0)
    assert found is not None
    assert found["reason"] == "its hours ([[windows]]) are over until 2026-11-29 22:00 UTC"


def test_metrics_of_a_line_without_limits_say_so() -> None:
    text = render(status.families(LineStatus(carried={"up": 7}), {("iothub", "9"): HeldUntil(Why.DAY, 1.0)}))
    assert (
        'fairlead_edge_link_carried_bytes_total{part="up"} 7' in text and "fairlead_edge_link_day_bytes_max 0" in text
    )
    assert 'fairlead_edge_queue_held{endpoint="iothub",priority="9",by="day"} 1' in text
