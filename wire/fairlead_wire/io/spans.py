"""Records spans of sampled traces.  A program opens it once, uses it on every hop, and closes it at the end.

    spans = open_spans(settings.traces, room="edge", environ=os.environ, …)      None: tracing is off
    if spans is not None and (span := spans.begin("publish", incoming, kind=PRODUCER)):
        …; span.end()
    if spans is not None and (hop := spans.hop("upstream batch", origins, kind=CLIENT)):
        …; hop.end()

A batch belongs to the traces of all its messages: each trace (at most ``LINKS_MAX``) gets a span, so that it shows
every hop.  The span in the first trace represents the batch: the next program continues it, and it has links to the
others.

Only ``open_spans`` imports OpenTelemetry, and only if there is an endpoint.  Recording never raises: a message is worth
more than its trace.
"""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.util import find_spec
from random import Random
from typing import Final, Literal, Protocol

from fairlead_wire import distribution, errors
from fairlead_wire.errors import FairleadError
from fairlead_wire.io import logs
from fairlead_wire.traces import trace
from fairlead_wire.traces.settings import TraceSettings
from fairlead_wire.traces.trace import Sampler, Trace

Kind = Literal["internal", "server", "client", "producer", "consumer"]
Value = str | int | float | bool
NONE: Final[Mapping[str, Value]] = {}
CLOSE_SECONDS_MAX: Final = 2.0
"""An unreachable collector delays the exit of a program by at most this."""
SDK_DISABLED: Final = "OTEL_SDK_DISABLED"
ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
TRACES_PATH: Final = "/v1/traces"
REMEDY: Final = f"install it with: {distribution.install('traces')}"

_log = logs.get("wire.traces")


class CannotTrace(FairleadError):
    """Tracing is configured but cannot start; the text says why."""


class RecordedSpan(Protocol):
    """A started span."""

    @property
    def trace(self) -> Trace: ...
    def link(self, other: Trace) -> None: ...
    def end(self, failure: str, attributes: Mapping[str, Value]) -> None: ...


class Exporter(Protocol):
    """Makes spans and sends them; implemented by ``otlp.OtlpExporter``."""

    def start(
        self,
        name: str,
        *,
        kind: Kind,
        parent: Trace | None,
        links: Sequence[Trace],
        attributes: Mapping[str, Value],
        start_ns: int | None,
    ) -> RecordedSpan: ...
    def flush(self, seconds: float) -> bool: ...
    def close(self, seconds: float) -> None: ...
    def counts(self) -> dict[str, int]: ...


class Hop:
    """One step of processing, with a span in each of its traces."""

    __slots__ = ("_spans", "trace")

    def __init__(self, spans: Sequence[RecordedSpan]) -> None:
        self._spans = spans
        self.trace = spans[0].trace
        """The trace context to pass to the next hop."""

    @contextlib.contextmanager
    def named_in_logs(self) -> Iterator[None]:
        """Log lines written inside this context carry the trace's id."""
        token = logs.TRACE_ID.set(self.trace.trace_id)
        try:
            yield
        finally:
            logs.TRACE_ID.reset(token)

    def end(self, failure: str = "", attributes: Mapping[str, Value] = NONE) -> None:
        """End all spans; ``failure``: what went wrong, in a word or a sentence."""
        for each in self._spans:
            each.end(failure, attributes)


@contextlib.contextmanager
def recording(hop: Hop | None) -> Iterator[None]:
    """End ``hop`` (None: nothing is recorded) when the context ends; an exception is recorded as its failure."""
    if hop is None:
        yield
        return
    failure = ""
    try:
        with hop.named_in_logs():
            yield
    except BaseException as error:
        failure = errors.text_of(error)
        raise
    finally:
        hop.end(failure)


class Spans:
    """Records the spans of one program; see the module's docstring."""

    def __init__(self, exporter: Exporter, sampler: Sampler, clock: Callable[[], float]) -> None:
        self._exporter, self._sampler, self._clock = exporter, sampler, clock

    def begin(
        self,
        name: str,
        incoming: Trace | None,
        *,
        kind: Kind,
        links: Sequence[Trace] = (),
        attributes: Mapping[str, Value] = NONE,
    ) -> Hop | None:
        """Start the first hop, sampled by the trace context that came with the request; None: not recorded."""
        if not self._sampler.samples_incoming(incoming, self._clock()):
            return None
        return Hop(
            [self._exporter.start(name, kind=kind, parent=incoming, links=links, attributes=attributes, start_ns=None)]
        )

    def hop(
        self,
        name: str,
        origins: Sequence[Trace],
        *,
        kind: Kind,
        late: Collection[Trace] = (),
        start_ns: int | None = None,
        attributes: Mapping[str, Value] = NONE,
    ) -> Hop | None:
        """Start a later hop of messages with these sampled traces; None: not recorded.

        Traces in ``late`` are not continued: a new trace begins, with a link to the old one.
        """
        found: list[RecordedSpan] = []
        for origin in trace.distinct(origins):
            if not self._sampler.admits_continued(self._clock()):
                break
            is_late = origin in late
            links = [origin] if is_late else []
            if found:
                links.append(found[0].trace)
                found[0].link(origin)
            parent = None if is_late else origin
            span = self._exporter.start(
                name, kind=kind, parent=parent, links=links, attributes=attributes, start_ns=start_ns
            )
            found.append(span)
        return Hop(found) if found else None

    def counts(self) -> dict[str, int]:
        """Counts since the start: spans ``ended``, ``exported`` and ``dropped``, traces ``over_ceiling``."""
        return {**self._exporter.counts(), "over_ceiling": self._sampler.over_ceiling}

    def flush(self, seconds: float = CLOSE_SECONDS_MAX) -> None:
        """Send queued spans, waiting at most ``seconds``: for a process that may be killed at any moment."""
        self._exporter.flush(seconds)

    def close(self) -> None:
        """Send queued spans and stop; returns within ``CLOSE_SECONDS_MAX``."""
        self._exporter.close(CLOSE_SECONDS_MAX)


def endpoint_of(settings: TraceSettings, environ: Mapping[str, str]) -> str:
    """The complete URL that spans are sent to; "": tracing is off."""
    if environ.get(SDK_DISABLED, "").strip().lower() == "true":
        return ""
    if not settings.endpoint and (whole := environ.get(TRACES_ENDPOINT)):
        return whole
    base = (settings.endpoint or environ.get(ENDPOINT) or "").rstrip("/")
    return f"{base}{TRACES_PATH}" if base and not base.endswith(TRACES_PATH) else base


def check_installed(settings: TraceSettings) -> None:
    """Check the settings for spans that another process opens later.  Raises ``CannotTrace``."""
    if settings.endpoint and find_spec("opentelemetry") is None:
        raise CannotTrace(f"traces.endpoint: OpenTelemetry is not installed; {REMEDY}")
    check_files(settings)


def check_files(settings: TraceSettings) -> None:
    """Read the TLS files now: the exporter reads them with its first spans, when it is too late to refuse them.

    Raises ``CannotTrace``.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if settings.tls_ca:
        try:
            context.load_verify_locations(cafile=settings.tls_ca)
        except OSError as error:
            raise CannotTrace(f"traces.tls_ca {settings.tls_ca}: {errors.plain(error)}") from None
    if settings.tls_cert and settings.tls_key:
        try:
            # An empty password, or OpenSSL would prompt for one at the terminal.
            context.load_cert_chain(settings.tls_cert, settings.tls_key, password=lambda: b"")
        except OSError as error:
            where = f"traces.tls_cert {settings.tls_cert} with tls_key {settings.tls_key}"
            raise CannotTrace(f"{where}: {errors.plain(error)}") from None


def open_spans(
    settings: TraceSettings,
    *,
    room: str,
    version: str,
    environ: Mapping[str, str],
    wrap: Callable[[Exporter], Exporter] | None = None,
) -> Spans | None:
    """Start tracing; None if it is off, and then OpenTelemetry is not imported.

    ``wrap`` wraps the exporter, for a program that also shows its spans itself.

    Raises ``CannotTrace`` if our own settings turn tracing on and it cannot start.  If only the environment turns it
    on, which may be shared by all programs of a machine, the reason is logged and tracing stays off.
    """
    endpoint = endpoint_of(settings, environ)
    if not endpoint:
        return None
    check_files(settings)
    try:
        from fairlead_wire.io import otlp

        exporter = otlp.OtlpExporter(settings, endpoint=endpoint, room=room, version=version, environ=environ)
    except (ImportError, OSError, ValueError) as error:
        reason = f"traces.endpoint: {error}" + (f"; {REMEDY}" if isinstance(error, ImportError) else "")
        if settings.endpoint:
            raise CannotTrace(reason) from None
        _log.warning("traces_off", reason=reason, remedy=f"{REMEDY}, or set {SDK_DISABLED}=true")
        return None
    random = Random()
    sampler = Sampler(ratio=settings.ratio, ceiling_per_second=settings.ceiling_per_second, uniform=random.random)
    _log.info("traces_on", endpoint=endpoint, ratio=settings.ratio, ceiling_per_second=settings.ceiling_per_second)
    return Spans(exporter if wrap is None else wrap(exporter), sampler, time.monotonic)
