"""Exports spans with OpenTelemetry to a collector over OTLP/HTTP, in a background thread.

Only this module imports OpenTelemetry (10 MB, 0.2 s), and only ``spans.open_spans`` imports this module.  Sampling has
been decided before: every span that is started is recorded.  When the collector is unreachable, spans are dropped and
counted, with one log line a minute.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opentelemetry import trace as api
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider, sampling
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from fairlead_wire import errors
from fairlead_wire.io import logs
from fairlead_wire.io.spans import Kind, RecordedSpan, Value
from fairlead_wire.log_limiter import LogLimiter
from fairlead_wire.traces.settings import TraceSettings
from fairlead_wire.traces.trace import Trace

QUEUE_SPANS_MAX: Final = 2048
BATCH_SPANS_MAX: Final = 512
DELAY_MILLISECONDS: Final = 5000
REQUEST_SECONDS: Final = 5.0
"""Time limit for one request to the collector, including retries."""
LOG_SECONDS: Final = 60.0
FLUSH_AGAIN_SECONDS: Final = 60.0
"""After a failed flush, no flush waits for this long: batches of rows must not wait for an unreachable collector."""
_KINDS: Final[Mapping[Kind, api.SpanKind]] = {
    "internal": api.SpanKind.INTERNAL,
    "server": api.SpanKind.SERVER,
    "client": api.SpanKind.CLIENT,
    "producer": api.SpanKind.PRODUCER,
    "consumer": api.SpanKind.CONSUMER,
}
_SAMPLED: Final = api.TraceFlags(api.TraceFlags.SAMPLED)

_log = logs.get("wire.traces")


_captured = threading.local()
"""``reason``: the first message that the library logged during the export that runs in this thread."""


class _CaptureHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _captured.reason = getattr(_captured, "reason", "") or record.getMessage()


_capture_handler = _CaptureHandler(logging.WARNING)


def _capture_library_logs() -> None:
    """The library only logs why an export failed; ``_CountingExporter`` logs it once a minute, with a count."""
    logger = logging.getLogger("opentelemetry")
    logger.propagate = False
    logger.addHandler(_capture_handler)  # added once, however often this is called


class OtlpExporter:
    """Implements ``spans.Exporter``.  ``endpoint`` is the complete URL."""

    def __init__(
        self, settings: TraceSettings, *, endpoint: str, room: str, version: str, environ: Mapping[str, str]
    ) -> None:
        _capture_library_logs()
        exporter = OTLPSpanExporter(
            endpoint=endpoint,
            certificate_file=settings.tls_ca,
            client_key_file=settings.tls_key,
            client_certificate_file=settings.tls_cert,
            timeout=REQUEST_SECONDS,
            compression=Compression.Gzip,
        )
        self._counted = _CountingExporter(exporter)
        own = {} if environ.get("OTEL_SERVICE_NAME") else {"service.name": f"fairlead-{room}"}
        self._provider = TracerProvider(
            sampler=sampling.ALWAYS_ON,
            resource=Resource.create({**own, "service.version": version}),
            shutdown_on_exit=False,
        )
        self._ended = _EndedCounter()
        self._provider.add_span_processor(self._ended)
        self._provider.add_span_processor(
            BatchSpanProcessor(
                self._counted,
                max_queue_size=QUEUE_SPANS_MAX,
                schedule_delay_millis=DELAY_MILLISECONDS,
                max_export_batch_size=BATCH_SPANS_MAX,
                export_timeout_millis=REQUEST_SECONDS * 1000,
            )
        )
        self._tracer = self._provider.get_tracer("fairlead", version)
        self._no_flush_before = 0.0

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
        # The parent is passed, not taken from the current context, which would take half as long again.
        context = Context()
        if parent is not None:
            context = api.set_span_in_context(api.NonRecordingSpan(_context_of(parent)), context)
        span = self._tracer.start_span(
            name,
            context,
            kind=_KINDS[kind],
            attributes=dict(attributes),
            links=[api.Link(_context_of(each)) for each in links],
            start_time=start_ns,
        )
        return _Span(span)

    def counts(self) -> dict[str, int]:
        exported, failed = self._counted.exported, self._counted.failed
        return {"ended": self._ended.count, "exported": exported, "dropped": failed}

    def flush(self, seconds: float) -> bool:
        """Send what is queued.  False if not everything was sent in time."""
        now = time.monotonic()
        if now < self._no_flush_before:
            return False
        failed = self._counted.failed
        sent = _within(seconds, self._provider.force_flush) and self._counted.failed == failed
        if not sent:
            self._no_flush_before = time.monotonic() + FLUSH_AGAIN_SECONDS
        return sent

    def close(self, seconds: float) -> None:
        _within(seconds, self._provider.shutdown)


class _Span:
    """Implements ``spans.RecordedSpan``."""

    __slots__ = ("_span", "trace")

    def __init__(self, span: api.Span) -> None:
        self._span = span
        context = span.get_span_context()
        self.trace = Trace(api.format_trace_id(context.trace_id), api.format_span_id(context.span_id))

    def link(self, other: Trace) -> None:
        self._span.add_link(_context_of(other))

    def end(self, failure: str, attributes: Mapping[str, Value]) -> None:
        if attributes:
            self._span.set_attributes(dict(attributes))
        if failure:
            self._span.set_status(api.StatusCode.ERROR, failure)
        self._span.end()


class _EndedCounter(SpanProcessor):
    """Counts ended spans; those that were not exported are queued or were dropped."""

    def __init__(self) -> None:
        self.count = 0

    def on_end(self, span: ReadableSpan) -> None:
        self.count += 1


class _CountingExporter(SpanExporter):
    """Wraps the exporter to count successes and failures, and to log failures."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._limiter = LogLimiter(LOG_SECONDS)
        self.exported = 0
        self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        _captured.reason = ""
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - whatever the library raises, these spans are lost, which is logged
            result, reason = SpanExportResult.FAILURE, errors.described(error)
        else:
            reason = _captured.reason or "the collector refused them"
        if result is SpanExportResult.SUCCESS:
            self.exported += len(spans)
            return result
        self.failed += len(spans)
        if self._limiter.due("dropped", time.monotonic()) is not None:
            remedy = "check that the collector at traces.endpoint is running; messages are not affected"
            _log.warning("spans_dropped", count=self.failed, reason=reason, remedy=remedy)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _context_of(trace: Trace) -> api.SpanContext:
    return api.SpanContext(int(trace.trace_id, 16), int(trace.span_id, 16), is_remote=True, trace_flags=_SAMPLED)


def _within(seconds: float, call: Callable[[], object]) -> bool:
    """Call it in a thread, because the library has no time limit for it; True if it returned in time."""
    thread = threading.Thread(target=call, name="spans", daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()
