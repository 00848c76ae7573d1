"""The data plan as metrics."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead_edge.metrics import Family, single
from fairlead_edge.outbox.plan.gate import HeldUntil
from fairlead_edge.outbox.plan.status import LineStatus


def families(line: LineStatus, held: Mapping[tuple[str, str], HeldUntil]) -> list[Family]:
    """Metrics; ``held`` by endpoint and priority, as labels."""
    return [
        Family(
            name="fairlead_edge_link_carried_bytes_total",
            kind="counter",
            help="what the link carried since the start: up, down, again (what TCP repeated), headers",
            labels=("part",),
            samples={(part,): size for part, size in line.carried.items()},
        ),
        single("fairlead_edge_link_day_bytes", "gauge", "what the link carried since the day began", line.used),
        single("fairlead_edge_link_day_bytes_max", "gauge", "[link] bytes_per_day; 0: none", line.limits.bytes_per_day),
        single("fairlead_edge_link_day_used_up", "gauge", "1 while messages wait for the next day", line.used_up),
        Family(
            name="fairlead_edge_queue_held",
            kind="gauge",
            help="1 while the messages that wait may not leave, by reason: window, day or rate",
            labels=("endpoint", "priority", "by"),
            samples={(endpoint, priority, each.why.value): 1.0 for (endpoint, priority), each in held.items()},
        ),
    ]
