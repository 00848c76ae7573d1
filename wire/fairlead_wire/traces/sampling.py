"""Which traces are recorded: a share of what comes without one, and what comes with one, both below a ceiling.

    no traceparent       ─ratio──────┐
    a sampled one        ────────────┴─ceiling─▶ recorded
    one that is not sampled ─▶ not recorded: who began the trace decided so

The ceiling is our own: a client must not be able to switch recording on for everything it sends.
"""

from __future__ import annotations

from collections.abc import Callable

from fairlead_wire.traces.trace import Trace


class _Bucket:
    """So many a second on average, and as many at once."""

    __slots__ = ("_filled_at", "_holds", "_per_second", "_tokens")

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._holds = max(1.0, per_second) if per_second else 0.0
        self._tokens = self._holds
        self._filled_at: float | None = None

    def take(self, now: float) -> bool:
        if self._filled_at is not None and now > self._filled_at:
            self._tokens = min(self._holds, self._tokens + self._per_second * (now - self._filled_at))
        self._filled_at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


class Sampler:
    """``now`` is seconds of one monotonic clock; ``uniform`` draws from [0, 1)."""

    def __init__(self, *, ratio: float, ceiling_per_second: float, uniform: Callable[[], float]) -> None:
        self._ratio = ratio
        self._uniform = uniform
        # Two, or the messages that arrive would leave nothing for those that go on.
        self._beginning, self._going_on = _Bucket(ceiling_per_second), _Bucket(ceiling_per_second)
        self.over_ceiling = 0
        """Traces that would have been recorded."""

    def begins(self, incoming: Trace | None, now: float) -> bool:
        """At the first door: is what came with this trace (None: with none) recorded?"""
        if incoming is None:
            if not self._ratio or self._uniform() >= self._ratio:
                return False
        elif not incoming.sampled:
            return False
        return self._taken(self._beginning, now)

    def goes_on(self, now: float) -> bool:
        """At a later hop: is there room for one more trace that was sampled before?"""
        return self._taken(self._going_on, now)

    def _taken(self, bucket: _Bucket, now: float) -> bool:
        taken = bucket.take(now)
        self.over_ceiling += not taken
        return taken
