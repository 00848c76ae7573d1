"""Counters of the hub's core (``io.io_counts``: those of its I/O).  ``io.metrics`` exports them.

The number of labels does not grow with user input.
"""

from __future__ import annotations

import bisect
from collections import defaultdict

LATENCY_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds in seconds."""
CODES_MAX = 64
"""Distinct reasons counted; further ones are combined, so an edge cannot grow this table by inventing codes."""


class Counts:
    """Totals since the start."""

    def __init__(self) -> None:
        self.acks = 0
        self.removed = 0
        self.same_content = 0
        self.handshakes = 0
        self.divergent_buckets = 0
        self.objectsyncs_collected = 0
        self.status_writes: dict[str, int] = defaultdict(int)
        self.absurd_fences = 0
        self.retries: dict[str, int] = defaultdict(int)
        self.parkings: dict[str, int] = defaultdict(int)
        self.refused: dict[str, int] = {}
        self.latency = [0] * (len(LATENCY_BUCKETS) + 1)
        self.latency_seconds = 0.0

    def opened(self) -> None:
        """A session was opened."""
        self.handshakes += 1

    def refused_session(self, code: str) -> None:
        """A session was refused or ended; codes are the protocol's."""
        self.refused[code] = self.refused.get(code, 0) + 1

    def unchanged(self) -> None:
        """A change left the delivered content unchanged."""
        self.same_content += 1

    def collected(self, documents: int) -> None:
        """ObjectSyncs of deleted Nodes were removed."""
        self.objectsyncs_collected += documents

    def wrote(self, outcome: str) -> None:
        """A document was written, or the attempt failed."""
        self.status_writes[outcome] += 1

    def wrote_over_absurd(self, documents: int) -> None:
        """Documents with an impossible fencing number were overwritten."""
        self.absurd_fences += documents

    def acked(self, seconds: float) -> None:
        self.acks += 1
        self.latency_seconds += seconds
        self.latency[bisect.bisect_left(LATENCY_BUCKETS, seconds)] += 1

    def removal(self) -> None:
        """Acknowledged."""
        self.removed += 1

    def compared(self, divergent_buckets: int) -> None:
        """An opening comparison finished."""
        self.divergent_buckets += divergent_buckets

    def retried(self, code: str) -> None:
        _count(self.retries, code)

    def parked(self, code: str) -> None:
        _count(self.parkings, code)


def _count(table: dict[str, int], code: str) -> None:
    table[code if code in table or len(table) < CODES_MAX else "other"] += 1
