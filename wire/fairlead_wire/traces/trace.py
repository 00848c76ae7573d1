"""A W3C trace context: which trace a message belongs to, and which span of it came last.

    00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
       trace id                         span id          flags: bit 0 says that the spans of this trace are recorded

It travels as the HTTP header and as the application property ``traceparent``.  Only what is sampled is carried, so a
program that records nothing pays for nothing but the look at one property.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
CHARS: Final = 55
"""Of a ``traceparent`` of version 00, always."""
TRACESTATE_CHARS_MAX: Final = 512
"""What the standard asks to carry at least; more is left out."""
LINKS_MAX: Final = 32
"""Traces of one batch that get a span; 100 links would cost 0.3 ms."""
LATE_SECONDS: Final = 3600.0
"""What waited longer begins a new trace with a link to the old one: backends drop spans of old traces."""
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
        """As it travels."""
        return f"00-{self.trace_id}-{self.span_id}-{_SAMPLED if self.sampled else 0:02x}"


def parse(text: str | None) -> Trace | None:
    """What a peer or a producer sent; None where it is none: then it is as if nothing had been sent."""
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
