"""The latest spans this hub recorded, for the console; empty if nothing is recorded.

spans = open_spans(…, wrap=ring.around)     every span is exported as before, and noted here when it ends
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fairlead_hub.console.traces import SpanLine
from fairlead_wire.event import short
from fairlead_wire.io.spans import Exporter, Kind, RecordedSpan, Value
from fairlead_wire.traces import span_names
from fairlead_wire.traces.trace import Trace

SPANS_KEPT: Final = 256
"""About 100 KB; below 1 MB regardless of their texts."""
LINKS_KEPT: Final = 8
"""Limit per span."""
SUBJECTS: Final = (span_names.RESOURCE, span_names.DESTINATION, span_names.STREAM)


class SpanRing:
    """See the module docstring.  ``clock_ns``: nanoseconds since 1970."""

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._clock_ns = clock_ns
        self._lines: deque[SpanLine] = deque(maxlen=SPANS_KEPT)

    def around(self, exporter: Exporter) -> Exporter:
        """Wrap an exporter so that its spans are also noted here."""
        return _Noted(exporter, self._lines.append, self._clock_ns)

    def newest(self) -> tuple[SpanLine, ...]:
        return tuple(reversed(self._lines))


class _Noted:
    """``spans.Exporter``."""

    def __init__(self, exporter: Exporter, note: Callable[[SpanLine], None], clock_ns: Callable[[], int]) -> None:
        self._note, self._clock_ns = note, clock_ns
        self._exporter = exporter
        self.flush, self.close, self.counts = exporter.flush, exporter.close, exporter.counts

    def start(
        self,
        name: str,
        *,
        kind: Kind,
        parent: Trace | None,
        links: Sequence[Trace],
        attributes: Mapping[str, Value],
        start_ns: int | None,
    ) -> RecordedSpan:
        span = self._exporter.start(
            name, kind=kind, parent=parent, links=links, attributes=attributes, start_ns=start_ns
        )
        began_ns = self._clock_ns() if start_ns is None else start_ns

        def ended(linked: Sequence[Trace], failure: str, all_attributes: Mapping[str, Value]) -> None:
            subjects = (all_attributes[key] for key in SUBJECTS if all_attributes.get(key))
            line = SpanLine(
                trace_id=span.trace.trace_id,
                span_id=span.trace.span_id,
                parent_id=parent.span_id if parent is not None else "",
                linked=tuple(each.trace_id for each in linked),
                name=name,
                node=str(all_attributes.get(span_names.NODE, "")),
                subject=short(str(next(subjects, ""))),
                at=began_ns / 1e9,
                # Spans use the wall clock, which may be set back.
                seconds=max(0, self._clock_ns() - began_ns) / 1e9,
                failure=short(failure),
            )
            self._note(line)

        return _NotedSpan(span, links, attributes, ended)


class _NotedSpan:
    """``spans.RecordedSpan``."""

    __slots__ = ("_attributes", "_ended", "_links", "_span", "trace")

    def __init__(
        self,
        span: RecordedSpan,
        links: Sequence[Trace],
        attributes: Mapping[str, Value],
        ended: Callable[[Sequence[Trace], str, Mapping[str, Value]], None],
    ) -> None:
        self._span, self._ended, self._attributes = span, ended, attributes
        self._links = list(links[:LINKS_KEPT])
        self.trace = span.trace

    def link(self, other: Trace) -> None:
        self._span.link(other)
        if len(self._links) < LINKS_KEPT:
            self._links.append(other)

    def end(self, failure: str, attributes: Mapping[str, Value]) -> None:
        self._span.end(failure, attributes)
        self._ended(self._links, failure, {**self._attributes, **attributes})
