"""A W3C trace context: which trace a message belongs to, and which span of it came last; and what is sampled.

    00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
       trace id                         span id          flags: bit 0 says that the spans of this trace are recorded

It travels as the HTTP header and as the application property ``traceparent``.  Only what is sampled is carried, so a
program that records nothing pays for nothing but the look at one property.
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
"""The standard requires at least this much to be carried; a longer one is left out."""
LINKS_MAX: Final = 32
"""Traces of one batch that get a span; 100 links would cost 0.3 ms."""
LATE_SECONDS: Final = 3600.0
"""A message that waited longer begins a new trace with a link to the old one: backends drop spans of old traces."""
_SAMPLED: Final = 1
_SHAPE: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})", re.ASCII)
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16
_TRACESTATE: Final = re.compile(rf"[\x20-\x7e]{{1,{TRACESTATE_CHARS_MAX}}}")


class Trace(msgspec.Struct, frozen=True):
    """The place in a trace where something is: ids are lower-case hex."""

    trace_id: str
    span_id: str
    sampled: bool = True

    def __str__(self) -> str:
        """The text of the header."""
        return f"00-{self.trace_id}-{self.span_id}-{_SAMPLED if self.sampled else 0:02x}"


def parse(text: str | None) -> Trace | None:
    """The context a peer or a producer sent; None if it is invalid, as if none had been sent."""
    if text is None or len(text) != CHARS:
        return None
    found = _SHAPE.fullmatch(text)
    if found is None or found[1] == _NO_TRACE or found[2] == _NO_SPAN:
        return None
    return Trace(found[1], found[2], bool(int(found[3], 16) & _SAMPLED))


def sampled(text: str | None) -> Trace | None:
    """The same, where its spans are recorded."""
    found = parse(text)
    return found if found is not None and found.sampled else None


def check_tracestate(text: str | None) -> str:
    """What vendors add to a trace, if it may be carried; else "": a part of it would be worth nothing."""
    return text if text is not None and _TRACESTATE.fullmatch(text) else ""


def distinct(traces: Iterable[Trace], limit: int = LINKS_MAX) -> list[Trace]:
    """Each trace once, by the first place it was found at, the earliest ``limit`` of them."""
    found: dict[str, Trace] = {}
    for each in traces:
        if each.trace_id not in found:
            if len(found) == limit:
                break
            found[each.trace_id] = each
    return list(found.values())


class Sampler:
    """Decides which traces are recorded: a share of what comes without one, and what comes with one, below a ceiling.

        no traceparent       ─ratio──────┐
        a sampled one        ────────────┴─ceiling─▶ recorded
        one that is not sampled ─▶ not recorded: whoever began the trace decided so

    The ceiling is our own: a client must not be able to switch recording on for everything it sends.  ``now`` is
    seconds of one monotonic clock; ``uniform`` draws from [0, 1).
    """

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


class _Bucket:
    """A token bucket: ``per_second`` on average, and as many at once."""

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
