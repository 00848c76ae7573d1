"""The data plan of a simulated edge: the real gate, a wall clock that runs fast, and a disk that keeps the day's count.

Its own laws, which ``left`` checks whenever a batch is sent:

8. No message is sent outside the hours of its priority.
9. On no day are more bytes of messages sent than the budget and one batch, whatever was killed on that day.
10. Over any time no more is sent than the rate allows, plus one second of it and one batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random

from tests.sim.laws import LawBroken

from fairlead_edge.outbox.plan.gate import DayCount, PlanGate
from fairlead_edge.outbox.plan.windows import MINUTES, HourWindow

BEGINS = datetime(2026, 11, 23, tzinfo=UTC).timestamp()
WALL_SPEED = 3000.0
"""Makes days and nights pass: about half an hour of the wall clock in each step, two weeks in the calm time."""


FETCH_SECONDS = 0.02
"""From the decision to the batch."""


class LinePlan:
    """The plan of one edge; ``crash`` ends its process.  ``forgets`` plants the mistake that a start counts from 0."""

    def __init__(self, random: Random, now: Callable[[], float], *, forgets: bool = False) -> None:
        self._now = now
        self._forgets = forgets
        self.bytes_per_day = random.choice([0, 60_000, 200_000])
        self.bytes_per_second = random.choice([0, 4000, 20_000])
        self.floor_share = random.choice([0.0, 0.05, 0.3])
        self.live_first_share = random.choice([0.0, 0.2, 0.5])
        self.windows: dict[int, list[HourWindow]] = {}
        for priority in random.sample([0, 1, 5, 2_000_000_000], random.randrange(3)):
            begins, ends = random.sample(range(0, MINUTES, 30), 2)
            self.windows[priority] = [HourWindow(begins=begins, ends=ends, zone=UTC)]
        self.carried = 0
        self._kept: DayCount | None = None
        self._days: Counter[str] = Counter()
        self._largest = 0
        self._began: float | None = None
        self._sent = 0
        self.starts = 0
        """How often the process was restarted; each start begins with a full second of its rate."""
        self.start()

    def start(self) -> None:
        """A process starts, with what the disk kept."""
        self.carried = 0
        self.gate = PlanGate(
            windows=self.windows,
            bytes_per_day=self.bytes_per_day,
            bytes_per_second=self.bytes_per_second,
            count=None if self._forgets else self._kept,
        )

    @property
    def _wall(self) -> float:
        return BEGINS + self._now() * WALL_SPEED

    def look(self) -> None:
        self.gate.update(now=self._now(), wall=self._wall, carried=self.carried)

    def left(self, priority: int, size: int, in_flight: int) -> None:
        """A batch is sent; ``in_flight`` includes it.  The kernel counts it at once."""
        count = self.gate.count
        assert count is not None
        self._kept = count.plus(in_flight)
        self.carried += size
        wall, now = self._wall, self._now()
        # Fetching takes up to twenty milliseconds, a minute on this wall: the decision was a little earlier.
        instants = (wall, wall - FETCH_SECONDS * WALL_SPEED)
        if priority in self.windows and not any(
            window.is_open(instant) for window in self.windows[priority] for instant in instants
        ):
            raise LawBroken(f"law 8 at {now:.2f}: priority {priority} left out of its hours")
        day = datetime.fromtimestamp(wall, UTC).date().isoformat()
        self._days[day] += size
        self._largest = max(self._largest, size)
        if self.bytes_per_day and self._days[day] > self.bytes_per_day + self._largest:
            raise LawBroken(f"law 9 at {now:.2f}: {self._days[day]} bytes of messages left on {day}")
        self._began = now if self._began is None else self._began
        self._sent += size
        starts_full = 1 + self.starts
        allowed = self.bytes_per_second * (now - self._began + starts_full) + self._largest * starts_full
        if self.bytes_per_second and self._sent > allowed:
            raise LawBroken(f"law 10 at {now:.2f}: {self._sent} bytes left")

    def crash(self) -> None:
        self.starts += 1
        self.start()
