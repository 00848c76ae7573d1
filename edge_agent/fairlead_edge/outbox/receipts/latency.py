"""How long messages take from their acceptance at this node to a table, measured on a sample of them.

    departed ─▶ followed (one of each batch, few at a time) ─ a table has read beyond it ─▶ measured

Both ends are times of the store's own clock, which continues over restarts and while the node is off; the cluster's
clock does not matter.  The end is when the node learned of it, so each measurement is too long by up to the interval
between two questions: two seconds, or a tenth of the wait if that is longer.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_edge.outbox.receipts import departure as departures
from fairlead_edge.outbox.receipts import marks, receipt
from fairlead_edge.outbox.receipts.departure import Departure
from fairlead_wire import message

FOLLOWED_MAX: Final = 32
"""The most messages of one priority that are followed at once."""
MEASURED_MAX: Final = message.TO_TABLE_WINDOW
"""How many of the latest measurements of a priority the quantiles are computed from."""
GIVEN_UP_SECONDS: Final = 3600.0
"""After this time, no table is expected to read the message."""
ASK_SECONDS_MIN: Final = 2.0
ASK_SECONDS_MAX: Final = 60.0
ASK_SHARE: Final = 0.1


class Quantiles(msgspec.Struct, frozen=True, kw_only=True):
    """For one priority: the number of measurements since the start, and the median and 95th percentile of the
    latest."""

    priority: int
    measured: int
    p50: float
    p95: float


class _Followed(msgspec.Struct, frozen=True):
    departure: Departure
    entry: departures.DepartedMessage


class Latency:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._followed: dict[int, list[_Followed]] = {}
        self._measured: dict[int, deque[float]] = {}
        self._counts: dict[int, int] = {}

    def departed(self, priority: int, departure: Departure, enqueued: float) -> bool:
        """Follow its first message, which was accepted at ``enqueued``; returns whether it is followed."""
        followed = self._followed.setdefault(priority, [])
        if len(followed) >= FOLLOWED_MAX or departure.outcome != "in_topic" or not departure.newest:
            return False
        entry = departures.entry(departure, 0, author=marks.NO_AUTHOR, enqueued=enqueued)
        followed.append(_Followed(departure, entry))
        return True

    def topics(self, now: float) -> dict[str, float]:
        """Topics to ask about, each with the interval between two questions."""
        pauses: dict[str, float] = {}
        for followed in self._followed.values():
            followed[:] = [each for each in followed if now - each.departure.left_at < GIVEN_UP_SECONDS]
            for each in followed:
                pause = ASK_SHARE * (now - each.departure.left_at)
                pause = min(max(pause, ASK_SECONDS_MIN), ASK_SECONDS_MAX)
                pauses[each.departure.topic] = min(pause, pauses.get(each.departure.topic, math.inf))
        return pauses

    def reached(self, topic: receipt.TopicReach, now: float) -> None:
        """Measure the followed messages that a table has by this report, which arrived ``now``."""
        for priority, followed in self._followed.items():
            left = []
            for each in followed:
                if each.departure.topic != topic.topic or not topic.tables:
                    left.append(each)
                elif not receipt.is_of(each.departure, topic):
                    continue  # the topic was recreated
                elif any(receipt.has_taken(each.entry, table) for table in topic.tables):
                    self._measured.setdefault(priority, deque(maxlen=MEASURED_MAX)).append(
                        max(0.0, now - each.entry.enqueued)
                    )
                    self._counts[priority] = self._counts.get(priority, 0) + 1
                else:
                    left.append(each)
            followed[:] = left

    def quantiles(self) -> list[Quantiles]:
        """By priority, the most urgent first."""
        return [
            Quantiles(
                priority=priority,
                measured=self._counts[priority],
                p50=_quantile(measured, 0.5),
                p95=_quantile(measured, 0.95),
            )
            for priority, found in sorted(self._measured.items())
            if (measured := sorted(found))
        ]


def _quantile(measured: Sequence[float], share: float) -> float:
    """The smallest value that is not less than this share of the values."""
    return round(measured[max(0, math.ceil(share * len(measured)) - 1)], 3)
