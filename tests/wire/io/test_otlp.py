"""Spans as a collector gets them, and a collector that is not there."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from tests.support.otlp import Collector
from tests.support.processes import free_ports
from tests.support.spans import place

from fairlead_wire.io import logs, otlp
from fairlead_wire.io.otlp import OtlpExporter
from fairlead_wire.io.spans import CLOSE_SECONDS_MAX
from fairlead_wire.traces.settings import TracesSettings


def exporter(endpoint: str) -> OtlpExporter:
    return OtlpExporter(TracesSettings(), endpoint=f"{endpoint}/v1/traces", room="hub", version="0.2", environ={})


def one_span(to: OtlpExporter, *, failure: str = "") -> str:
    span = to.start(
        "store", kind="server", parent=place(1), links=[place(2)], attributes={"rows": 3}, start_ns=1_000_000_000
    )
    span.link(place(3))
    span.end(failure, {"fairlead.answer": "ack"})
    return span.trace.span_id


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that a busy machine makes late is not made twice."""
    monkeypatch.setattr(otlp, "REQUEST_SECONDS", 60.0)


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged meanwhile."""
    before = logging.getLogger().handlers[:]
    stream = io.StringIO()
    logs.configure("hub", stream=stream)
    yield stream
    logging.getLogger().handlers[:] = before


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_a_span_arrives_as_it_was_made() -> None:
    with Collector() as collector:
        sender = exporter(collector.url)
        span_id = one_span(sender, failure="full")
        assert sender.flush(60.0)
        [span] = collector.spans
        sender.close(60.0)
    assert (span.service, span.name, span.span_id, span.parent_id) == ("fairlead-hub", "store", span_id, f"{1:016x}")
    assert (span.trace_id, span.start_ns, span.is_error, span.kind) == (f"{1:032x}", 1_000_000_000, True, 2)
    assert span.links == ((f"{2:032x}", f"{2:016x}"), (f"{3:032x}", f"{3:016x}"))
    assert span.attributes == {"rows": 3, "fairlead.answer": "ack"}


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_the_environment_adds_to_what_is_said_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "our-hub")
    with Collector() as collector:
        environ = {"OTEL_SERVICE_NAME": "our-hub"}
        endpoint = f"{collector.url}/v1/traces"
        sender = OtlpExporter(TracesSettings(), endpoint=endpoint, room="hub", version="0.2", environ=environ)
        one_span(sender)
        assert sender.flush(60.0)
        sender.close(60.0)
        assert [span.service for span in collector.spans] == ["our-hub"]


@pytest.mark.slow
def test_why_spans_are_dropped_is_said(lines: io.StringIO) -> None:
    """A token that is not known, a wrong path: all the collector's log has, and more than that it did not take them."""
    with Collector(status=401) as collector:
        sender = exporter(collector.url)
        one_span(sender)
        assert not sender.flush(60.0)
        sender.close(60.0)
    [said] = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert (said["event"], said["count"]) == ("spans_dropped", 1)
    assert "code: 401" in said["reason"] and "Unauthorized" in said["reason"]


@pytest.mark.verify
def test_a_collector_that_is_away_costs_spans_and_one_line(lines: io.StringIO) -> None:
    """Counted; said once a minute; and the end of the program waits no longer than it said it would."""
    [port] = free_ports(1)
    sender = exporter(f"http://127.0.0.1:{port}")
    one_span(sender)
    sender.flush(60.0)
    assert sender.counts() == {"ended": 1, "exported": 0, "dropped": 1}
    one_span(sender)
    assert not sender.flush(60.0), "after a failure none is waited for"
    sender.close(CLOSE_SECONDS_MAX)
    said = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [line["event"] for line in said] == ["spans_dropped"], said
    assert "collector" in said[0]["remedy"] and "refused" in said[0]["reason"]
