"""The data plan as metrics."""

from __future__ import annotations

from fairlead_edge.metrics import render
from fairlead_edge.outbox.plan import status
from fairlead_edge.outbox.plan.gate import HeldUntil, Why
from fairlead_edge.outbox.plan.status import LineStatus


def test_metrics_of_a_line_without_limits_say_so() -> None:
    text = render(status.families(LineStatus(carried={"up": 7}), {("iothub", "9"): HeldUntil(Why.DAY, 1.0)}))
    assert (
        'fairlead_edge_link_carried_bytes_total{part="up"} 7' in text and "fairlead_edge_link_day_bytes_max 0" in text
    )
    assert 'fairlead_edge_queue_held{endpoint="iothub",priority="9",by="day"} 1' in text
