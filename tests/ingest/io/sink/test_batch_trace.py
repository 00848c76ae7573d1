"""One span for each trace of a batch, and a commit that cares for none of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partialmethod

import pytest
from tests.support.otlp import Collector
from tests.support.spans import KeptSpans, place, spans_in_memory

from fairlead_ingest.io.sink import batch_trace
from fairlead_ingest.io.sink.task_writer import Written
from fairlead_wire.io import otlp
from fairlead_wire.io.spans import Spans
from fairlead_wire.traces.model import TracesModel


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> KeptSpans:
    spans, kept = spans_in_memory()
    monkeypatch.setattr(batch_trace, "_opened", lambda settings: spans)
    return kept


@pytest.fixture
def fresh_process() -> Iterator[None]:
    """As Spark starts one: nothing opened, logs not configured."""
    before = logging.getLogger().handlers[:]
    batch_trace._opened.cache_clear()
    yield
    batch_trace._opened.cache_clear()
    logging.getLogger().handlers[:] = before


def written(*traces: tuple[str, bool], began_ns: int = 1) -> Written:
    return Written(traces=list(traces), began_ns=began_ns)


def test_the_commit_is_recorded_in_every_trace_of_its_tasks(kept):
    tasks = [written((str(place(1)), False)), written((str(place(2)), True), (str(place(1)), False)), written()]
    with batch_trace.recording("{}", tasks, "readings", 7):
        assert [span.failure for span in kept.kept] == [None, None], "it ends with the commit"
    assert [(span.name, span.parent, span.failure) for span in kept.kept] == [
        ("ingest batch", place(1), ""),
        ("ingest batch", None, ""),
    ]
    assert kept.kept[0].attributes["fairlead.table"] == "readings"
    assert kept.kept[0].attributes["fairlead.batch"] == 7


def test_a_commit_that_fails_is_the_spans_failure(kept):
    with pytest.raises(OSError), batch_trace.recording("{}", [written((str(place(1)), False))], "readings", 7):
        raise OSError("disk full")
    assert kept.kept[0].failure == "disk full"


def test_without_settings_or_traces_nothing_is_opened(monkeypatch):
    def opened(settings: str) -> None:
        raise AssertionError("nothing asks for spans")

    monkeypatch.setattr(batch_trace, "_opened", opened)
    with batch_trace.recording("", [written((str(place(1)), False))], "readings", 7):
        pass
    with batch_trace.recording("{}", [written()], "readings", 7):
        pass


def test_the_sink_gets_settings_only_where_spans_go_somewhere(monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert batch_trace.option(TracesModel()) == ""
    settings = TracesModel(endpoint="http://a:1")
    assert TracesModel.model_validate_json(batch_trace.option(settings)) == settings


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_process")
def test_spans_are_sent_before_the_commit_is_over(monkeypatch):
    """Spark may end the process at any moment after it; the commit waits here as long as a busy machine takes."""
    monkeypatch.setattr(Spans, "flush", partialmethod(Spans.flush, 60.0))
    monkeypatch.setattr(otlp, "REQUEST_SECONDS", 60.0)
    with Collector() as collector:
        settings = batch_trace.option(TracesModel(endpoint=collector.url))
        with batch_trace.recording(settings, [written((str(place(1)), False))], "readings", 7):
            opened = batch_trace._opened(settings)
        assert opened is not None
        assert collector.tree(place(1).trace_id) == ["ingest batch [fairlead-ingest]"]
        opened.close()


@pytest.mark.usefixtures("fresh_process")
def test_bad_settings_cost_the_span_and_not_the_batch():
    with batch_trace.recording('{"ratio": 7}', [written((str(place(1)), False))], "readings", 7):
        pass
