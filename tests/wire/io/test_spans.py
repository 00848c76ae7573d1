"""Which spans a hop makes, and when OpenTelemetry is loaded at all."""

from __future__ import annotations

import builtins
import io
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.otlp import Collector
from tests.support.spans import place, spans_in_memory

from fairlead_wire.io import logs, otlp, spans
from fairlead_wire.traces.settings import TracesSettings
from fairlead_wire.traces.trace import LINKS_MAX, Trace

PROGRAMS = ("fairlead_edge.app", "fairlead_hub.app", "fairlead_messaging.app", "fairlead_ingest.io.sink.spark_sink")


def test_one_trace_goes_on_below_its_last_span() -> None:
    opened, kept = spans_in_memory()
    hop = opened.hop("store", [place(1), Trace(place(1).trace_id, place(7).span_id)], kind="server")
    assert hop is not None
    hop.end("full", {"rows": 3})
    [span] = kept.kept
    assert (span.parent, span.links, span.failure, span.attributes) == (place(1), [], "full", {"rows": 3})
    assert hop.trace == span.trace


def test_a_batch_of_many_traces_has_a_span_in_each_and_links() -> None:
    """The first one's is the batch's own, and links all others; each of those links it."""
    opened, kept = spans_in_memory()
    hop = opened.hop("store", [place(1), place(2), place(3)], kind="server")
    assert hop is not None
    assert [span.parent for span in kept.kept] == [place(1), place(2), place(3)]
    assert kept.kept[0].links == [place(2), place(3)]
    assert [span.links for span in kept.kept[1:]] == [[hop.trace], [hop.trace]]
    hop.end()
    assert all(span.failure == "" for span in kept.kept)


def test_a_batch_has_at_most_so_many_links() -> None:
    opened, kept = spans_in_memory()
    opened.hop("store", [place(number) for number in range(1, 200)], kind="server")
    assert len(kept.kept) == LINKS_MAX
    assert max(len(span.links) for span in kept.kept) == LINKS_MAX - 1


def test_what_is_late_begins_anew_with_a_link() -> None:
    opened, kept = spans_in_memory()
    hop = opened.hop("store", [place(99)], kind="server", late={place(99)})
    assert hop is not None
    assert (kept.kept[0].parent, kept.kept[0].links) == (None, [place(99)])
    assert hop.trace.trace_id != place(99).trace_id


def test_over_the_ceiling_the_rest_of_a_batch_has_no_span() -> None:
    opened, kept = spans_in_memory(ceiling_per_second=2)
    assert opened.hop("store", [place(1), place(2), place(3)], kind="server") is not None
    assert opened.hop("store", [place(4)], kind="server") is None
    assert len(kept.kept) == 2
    assert opened.counts()["over_ceiling"] == 2


def test_lines_within_carry_the_trace() -> None:
    stream = io.StringIO()
    before = logging.getLogger().handlers[:]
    try:
        logs.configure("edge", stream=stream)
        opened, _ = spans_in_memory()
        log = logs.get("edge.test")
        log.info("before")
        with spans.recording(opened.begin("publish", place(1), kind="producer")):
            log.info("within")
        log.info("after")
    finally:
        logging.getLogger().handlers[:] = before
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("trace_id") for line in lines] == [None, place(1).trace_id, None]


def test_what_goes_wrong_within_is_the_spans_failure() -> None:
    opened, kept = spans_in_memory()
    with pytest.raises(ValueError), spans.recording(opened.begin("publish", place(1), kind="producer")):
        raise ValueError("no room")
    assert kept.kept[0].failure == "no room"
    with spans.recording(None):
        pass


@pytest.mark.parametrize(
    ("endpoint", "environ", "expected"),
    [
        (None, {}, ""),
        ("http://a:1", {}, "http://a:1/v1/traces"),
        ("http://a:1/", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:2"}, "http://a:1/v1/traces"),
        ("http://a:1/v1/traces", {}, "http://a:1/v1/traces"),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:2"}, "http://b:2/v1/traces"),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:3/x"}, "http://c:3/x"),
        ("http://a:1", {"OTEL_SDK_DISABLED": "True"}, ""),
    ],
)
def test_where_spans_go(endpoint: str | None, environ: dict[str, str], expected: str) -> None:
    assert spans.endpoint_of(TracesSettings(endpoint=endpoint), environ) == expected


def test_without_the_extra_our_own_setting_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment of the whole machine says costs a warning alone."""
    real = builtins.__import__

    def without(name: str, *arguments: Any, **more: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *arguments, **more)

    monkeypatch.delitem(sys.modules, "fairlead_wire.io.otlp", raising=False)
    monkeypatch.delattr("fairlead_wire.io.otlp", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(spans.CannotTrace, match=r"pip install 'fairlead-kubernetes\[traces\]'"):
        spans.open_spans(TracesSettings(endpoint="http://a:1"), room="edge", version="1", environ={})
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1"}
    assert spans.open_spans(TracesSettings(), room="edge", version="1", environ=environ) is None


def test_a_program_that_opens_spans_later_says_at_its_start_that_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    spans.check_installed(TracesSettings(endpoint="http://a:1"))
    monkeypatch.setattr(spans, "find_spec", lambda name: None)
    spans.check_installed(TracesSettings())
    with pytest.raises(spans.CannotTrace, match=r"pip install 'fairlead-kubernetes\[traces\]'"):
        spans.check_installed(TracesSettings(endpoint="http://a:1"))


@pytest.mark.parametrize("files", [{"tls_ca": "none"}, {"tls_cert": "none", "tls_key": "none"}])
def test_files_that_cannot_be_read_are_refused_at_the_start(files: dict[str, str], tmp_path: Path) -> None:
    paths: dict[str, Any] = {name: str(tmp_path / file) for name, file in files.items()}
    settings = TracesSettings(endpoint="https://a:1", **paths)
    for name, file in files.items():
        with pytest.raises(spans.CannotTrace, match=f"{name} .*{file}"):
            spans.open_spans(settings, room="edge", version="1", environ={})
        with pytest.raises(spans.CannotTrace, match=f"{name} .*{file}"):
            spans.check_installed(settings)


@pytest.mark.process
@pytest.mark.verify
def test_no_program_loads_opentelemetry_before_it_is_asked_to() -> None:
    """Ten megabytes and a fifth of a second, for what most devices never do."""
    script = "\n".join(
        [
            "import sys",
            *(f"import {name}" for name in PROGRAMS),
            "from fairlead_wire.io import spans",
            "from fairlead_wire.traces.settings import TracesSettings",
            "assert spans.open_spans(TracesSettings(ratio=1.0), room='edge', version='1', environ={}) is None",
            "print([name for name in sys.modules if name.startswith('opentelemetry')])",
        ]
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_spans_arrive_at_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "REQUEST_SECONDS", 60.0)  # what a busy machine sends late is not sent twice
    with Collector() as collector:
        settings = TracesSettings(endpoint=collector.url, ratio=1.0)
        environ = {"OTEL_SERVICE_NAME": ""}
        opened = spans.open_spans(settings, room="edge", version="1", environ=environ)
        assert opened is not None
        began = opened.begin("publish", None, kind="producer")
        assert began is not None
        hop = opened.hop("upstream batch", [began.trace], kind="client")
        assert hop is not None
        hop.end()
        began.end()
        opened.flush(60.0)
        opened.close()
        assert collector.tree(began.trace.trace_id) == ["publish [fairlead-edge]", "  upstream batch [fairlead-edge]"]
        assert opened.counts() == {"ended": 2, "exported": 2, "dropped": 0, "over_ceiling": 0}
