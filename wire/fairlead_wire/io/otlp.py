"""Spans by OpenTelemetry, sent to a collector over OTLP/HTTP from a thread of their own.

This is the one module that imports OpenTelemetry (10 MB, 0.2 s), and ``spans.open_spans`` the one place that imports
this.  What is sampled was decided before: each span that is started is recorded.  A collector that is away costs spans,
which are counted, and one log line a minute.
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
"""Limit for one request to the collector, retries included."""
LOG_SECONDS: Final = 60.0
FLUSH_AGAIN_SECONDS: Final = 60.0
"""After a flush that failed none is waited for: batches of rows must not wait for a collector that is away."""
_KINDS: Final[Mapping[Kind, api.SpanKind]] = {
    "internal": api.SpanKind.INTERNAL,
    "server": api.SpanKind.SERVER,
    "client": api.SpanKind.CLIENT,
    "producer": api.SpanKind.PRODUCER,
    "consumer": api.SpanKind.CONSUMER,
}
_SAMPLED: Final = api.TraceFlags(api.TraceFlags.SAMPLED)

_log = logs.get("wire.traces")


_heard = threading.local()
"""``reason``: what the library said first of the export that runs in this thread."""


class _Listener(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _heard.reason = getattr(_heard, "reason", "") or record.getMessage()


_listener = _Listener(logging.WARNING)


def _hear_the_library() -> None:
    """It logs why an export failed, and nothing else tells; ``_Counted`` says it once a minute, with a count."""
    logger = logging.getLogger("opentelemetry")
    logger.propagate = False
    logger.addHandler(_listener)  # once, however often it is asked for


class OtlpExporter:
    """``spans.Exporter``.  ``endpoint`` is the whole address."""

    def __init__(
        self, settings: TraceSettings, *, endpoint: str, room: str, version: str, environ: Mapping[str, str]
    ) -> None:
        _hear_the_library()
        exporter = OTLPSpanExporter(
            endpoint=endpoint,
            certificate_file=settings.tls_ca,
            client_key_file=settings.tls_key,
            client_certificate_file=settings.tls_cert,
            timeout=REQUEST_SECONDS,
            compression=Compression.Gzip,
        )
        self._counted = _Counted(exporter)
        own = {} if environ.get("OTEL_SERVICE_NAME") else {"service.name": f"fairlead-{room}"}
        self._provider = TracerProvider(
            sampler=sampling.ALWAYS_ON,
            resource=Resource.create({**own, "service.version": version}),
            shutdown_on_exit=False,
        )
        self._started = _Started()
        self._provider.add_span_processor(self._started)
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
        # The parent is given, never taken from the context: that would cost half as much again.
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
        return {"ended": self._started.ended, "exported": exported, "dropped": failed}

    def flush(self, seconds: float) -> bool:
        """False: not all was sent within that time."""
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
    """``spans.RecordedSpan``."""

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


class _Started(SpanProcessor):
    """Counts what ended: the difference to what was sent waits, or was dropped."""

    def __init__(self) -> None:
        self.ended = 0

    def on_end(self, span: ReadableSpan) -> None:
        self.ended += 1


class _Counted(SpanExporter):
    """The exporter, with its successes and failures counted and said."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._limiter = LogLimiter(LOG_SECONDS)
        self.exported = 0
        self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        _heard.reason = ""
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - whatever the library raises costs these spans, and is said
            result, reason = SpanExportResult.FAILURE, errors.described(error)
        else:
            reason = _heard.reason or "the collector did not take them"
        if result is SpanExportResult.SUCCESS:
            self.exported += len(spans)
            return result
        self.failed += len(spans)
        if self._limiter.due("dropped", time.monotonic()) is not None:
            remedy = "look whether the collector of traces.endpoint runs; messages are not affected"
            _log.warning("spans_dropped", count=self.failed, reason=reason, remedy=remedy)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _context_of(trace: Trace) -> api.SpanContext:
    return api.SpanContext(int(trace.trace_id, 16), int(trace.span_id, 16), is_remote=True, trace_flags=_SAMPLED)


def _within(seconds: float, call: Callable[[], object]) -> bool:
    """Did it return in time?  The library has no limit of its own for this."""
    thread = threading.Thread(target=call, name="spans", daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()
