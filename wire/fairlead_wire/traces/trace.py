"""The W3C trace context of a message (its trace, and the latest span), and the sampler.

    00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
       trace id                         span id          flags: bit 0 says that the spans of this trace are recorded

It is sent as the HTTP header and the application property ``traceparent``.  Only sampled contexts are passed on, so a
program that records nothing only has to look up one property.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
CHARS: Final = 55
"""Length of every ``traceparent`` of version 00."""
TRACESTATE_CHARS_MAX: Final = 512
"""The standard requires at least this length to be passed on; a longer value is dropped."""
LINKS_MAX: Final = 32
"""Most traces of one batch that get a span; 100 links would cost 0.3 ms."""
LATE_SECONDS: Final = 3600.0
"""A message older than this begins a new trace, linked to the old one: backends drop spans of old traces."""
_SAMPLED: Final = 1
_SHAPE: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})", re.ASCII)
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16
_TRACESTATE: Final = re.compile(rf"[\x20-\x7e]{{1,{TRACESTATE_CHARS_MAX}}}")


class Trace(msgspec.Struct, frozen=True):
    """A position in a trace; ids are lower-case hex."""

    trace_id: str
    span_id: str
    sampled: bool = True

    def __str__(self) -> str:
        """The text of the header."""
        return f"00-{self.trace_id}-{self.span_id}-{_SAMPLED if self.sampled else 0:02x}"


def parse(text: str | None) -> Trace | None:
    """Parse a ``traceparent``; None if it is absent or invalid."""
    if text is None or len(text) != CHARS:
        return None
    found = _SHAPE.fullmatch(text)
    if found is None or found[1] == _NO_TRACE or found[2] == _NO_SPAN:
        return None
    return Trace(found[1], found[2], bool(int(found[3], 16) & _SAMPLED))


def sampled(text: str | None) -> Trace | None:
    """Parse a ``traceparent``; None also if it is not sampled."""
    found = parse(text)
    return found if found is not None and found.sampled else None


def check_tracestate(text: str | None) -> str:
    """The ``tracestate`` if it is valid and not too long, else "": a truncated one would be useless."""
    return text if text is not None and _TRACESTATE.fullmatch(text) else ""


def distinct(traces: Iterable[Trace], limit: int = LINKS_MAX) -> list[Trace]:
    """The first context of each trace, for at most ``limit`` traces."""
    found: dict[str, Trace] = {}
    for each in traces:
        if each.trace_id not in found:
            if len(found) == limit:
                break
            found[each.trace_id] = each
    return list(found.values())


class Sampler:
    """Decides which traces are recorded.

        no traceparent       ─ratio──────┐
        a sampled one        ────────────┴─ceiling─▶ recorded
        one that is not sampled ─▶ not recorded: the program that began the trace decided so

    The ceiling keeps a client from turning on recording for everything it sends.  ``now`` is in seconds of a monotonic
    clock; ``uniform`` draws from [0, 1).
    """

    def __init__(self, *, ratio: float, ceiling_per_second: float, uniform: Callable[[], float]) -> None:
        self._ratio = ratio
        self._uniform = uniform
        # Two buckets, or incoming requests would leave no tokens for later hops.
        self._incoming, self._continued = _Bucket(ceiling_per_second), _Bucket(ceiling_per_second)
        self.over_ceiling = 0
        """Traces not recorded because of the ceiling."""

    def samples_incoming(self, incoming: Trace | None, now: float) -> bool:
        """At the first hop: true if a request with this trace context (None: without one) is recorded."""
        if incoming is None:
            if not self._ratio or self._uniform() >= self._ratio:
                return False
        elif not incoming.sampled:
            return False
        return self._taken(self._incoming, now)

    def admits_continued(self, now: float) -> bool:
        """At a later hop: true if the ceiling allows another trace that was sampled before."""
        return self._taken(self._continued, now)

    def _taken(self, bucket: _Bucket, now: float) -> bool:
        taken = bucket.take(now)
        self.over_ceiling += not taken
        return taken


class _Bucket:
    """A token bucket: ``per_second`` on average, with a burst of the same size."""

    __slots__ = ("_capacity", "_filled_at", "_per_second", "_tokens")

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._capacity = max(1.0, per_second) if per_second else 0.0
        self._tokens = self._capacity
        self._filled_at: float | None = None

    def take(self, now: float) -> bool:
        if self._filled_at is not None and now > self._filled_at:
            self._tokens = min(self._capacity, self._tokens + self._per_second * (now - self._filled_at))
        self._filled_at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
