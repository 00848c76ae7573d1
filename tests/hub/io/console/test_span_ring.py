"""The latest spans, noted as they end, and sent as before."""

from tests.support.spans import KeptSpans, place

from fairlead_hub.io.console.span_ring import LINKS_KEPT, SPANS_KEPT, SpanRing
from fairlead_wire.event import TEXT_CHARS_MAX
from fairlead_wire.traces import span_names


class Clock:
    now_ns = 5_000_000_000

    def __call__(self):
        return self.now_ns


def started(exporter, name="deliver", *, parent=None, links=(), attributes=None, start_ns=None):
    return exporter.start(
        name, kind="client", parent=parent, links=list(links), attributes=attributes or {}, start_ns=start_ns
    )


def test_a_span_is_noted_when_it_ends_and_goes_to_the_collector_as_well():
    clock, kept = Clock(), KeptSpans()
    ring = SpanRing(clock)
    exporter = ring.around(kept)
    named = {span_names.NODE: "edge-1", span_names.RESOURCE: "configmap/shop/prices"}
    span = started(exporter, parent=place(7), links=[place(8)], attributes=named)
    span.link(place(9))
    clock.now_ns += 250_000_000
    assert ring.newest() == ()
    span.end("too_large", {span_names.ANSWER: "too_large"})
    [line] = ring.newest()
    assert (line.trace_id, line.span_id, line.parent_id) == (place(7).trace_id, span.trace.span_id, place(7).span_id)
    assert line.linked == (place(8).trace_id, place(9).trace_id)
    assert (line.name, line.node, line.subject, line.failure) == (
        "deliver", "edge-1", "configmap/shop/prices", "too_large"
    )  # fmt: skip
    assert (line.at, line.seconds) == (5.0, 0.25)
    [sent] = kept.kept
    assert (sent.failure, sent.links, sent.parent) == ("too_large", [place(8), place(9)], place(7))
    assert exporter.counts() == kept.counts() and exporter.flush(1.0)
    exporter.close(1.0)


def test_a_span_that_began_before_and_a_clock_that_goes_back():
    """Never a negative duration."""
    clock = Clock()
    ring = SpanRing(clock)
    exporter = ring.around(KeptSpans())
    started(exporter, start_ns=4_000_000_000).end("", {})
    late = started(exporter)
    clock.now_ns -= 1_000_000_000
    late.end("", {})
    assert [(line.at, line.seconds, line.parent_id) for line in ring.newest()] == [(5.0, 0.0, ""), (4.0, 1.0, "")]


def test_it_is_bounded():
    """In number, and in what one span may bring."""
    ring = SpanRing(Clock())
    exporter = ring.around(KeptSpans())
    for number in range(SPANS_KEPT + 9):
        span = started(exporter, f"{number}", links=[place(at) for at in range(1, 33)], attributes={
            span_names.DESTINATION: "x" * 5000})  # fmt: skip
        span.link(place(40))
        span.end("y" * 5000, {})
    lines = ring.newest()
    assert len(lines) == SPANS_KEPT and (lines[0].name, lines[-1].name) == (f"{SPANS_KEPT + 8}", "9")
    assert len(lines[0].linked) == LINKS_KEPT
    assert len(lines[0].subject) == len(lines[0].failure) == TEXT_CHARS_MAX
