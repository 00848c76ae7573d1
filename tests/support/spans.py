"""Spans in memory, for tests of code that records them: ids count from 1, nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairlead_wire.io.spans import Kind, Spans, Value
from fairlead_wire.traces.trace import Sampler, Trace


@dataclass
class KeptSpan:
    """One span: how it began, and how it ended (``failure`` None: not yet)."""

    name: str
    kind: Kind
    parent: Trace | None
    trace: Trace
    attributes: dict[str, Value]
    links: list[Trace] = field(default_factory=list)
    failure: str | None = None

    def link(self, other: Trace) -> None:
        self.links.append(other)

    def end(self, failure: str, attributes: Mapping[str, Value]) -> None:
        assert self.failure is None, "ended twice"
        self.failure = failure
        self.attributes |= attributes


class KeptSpans:
    """``spans.Exporter``."""

    def __init__(self) -> None:
        self.kept: list[KeptSpan] = []

    def start(
        self,
        name: str,
        *,
        kind: Kind,
        parent: Trace | None,
        links: Sequence[Trace],
        attributes: Mapping[str, Value],
        start_ns: int | None,
    ) -> KeptSpan:
        number = len(self.kept) + 1
        place = Trace(parent.trace_id if parent else f"{number:032x}", f"{number:016x}")
        self.kept.append(KeptSpan(name, kind, parent, place, dict(attributes), list(links)))
        return self.kept[-1]

    def flush(self, seconds: float) -> bool:
        return True

    def close(self, seconds: float) -> None:
        """Nothing to send."""

    def counts(self) -> dict[str, int]:
        return {"ended": len(self.kept), "exported": 0, "dropped": 0}


def spans_in_memory(*, ratio: float = 0.0, ceiling_per_second: float = 1000.0) -> tuple[Spans, KeptSpans]:
    """The recorder for a program, and its spans.  Time stands still."""
    kept = KeptSpans()
    sampler = Sampler(ratio=ratio, ceiling_per_second=ceiling_per_second, uniform=lambda: 0.5)
    return Spans(kept, sampler, lambda: 0.0), kept


def place(number: int, *, sampled: bool = True) -> Trace:
    """The trace with this number."""
    return Trace(f"{number:032x}", f"{number:016x}", sampled)
