"""Spans of what is sampled, for the programs: opened once, asked on every hop, closed at the end.

    spans = open_spans(settings.traces, room="edge", environ=os.environ, …)      None: nothing is recorded, ever
    if spans is not None and (span := spans.begin("publish", incoming, kind=PRODUCER)):
        …; span.end()
    if spans is not None and (hop := spans.hop("upstream batch", origins, kind=CLIENT)):
        …; hop.end()

A batch belongs to the traces of its messages: each of at most ``LINKS_MAX`` gets a span, so that it shows every hop.
The span of the first one is the batch's own, continued by the next program, and is linked with all others.

OpenTelemetry is imported by ``open_spans`` and by nothing else, and only where there is an endpoint.  Nothing here ever
raises into its caller: a message is worth more than its trace.
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
"""A collector that is away holds up the end of a program no longer."""
SWITCHED_OFF: Final = "OTEL_SDK_DISABLED"
ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
TRACES_PATH: Final = "/v1/traces"
REMEDY: Final = f"install it with: {distribution.install('traces')}"

_log = logs.get("wire.traces")


class CannotTrace(FairleadError):
    """The settings ask for spans, and they cannot be made; the text says what is missing."""


class RecordedSpan(Protocol):
    """One span of the exporter's."""

    @property
    def trace(self) -> Trace: ...
    def link(self, other: Trace) -> None: ...
    def end(self, failure: str, attributes: Mapping[str, Value]) -> None: ...


class Exporter(Protocol):
    """What makes spans and sends them; ``otlp.OtlpExporter`` is one."""

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
    """One thing that was done, in each of its traces."""

    __slots__ = ("_spans", "trace")

    def __init__(self, spans: Sequence[RecordedSpan]) -> None:
        self._spans = spans
        self.trace = spans[0].trace
        """The context to carry to the next hop."""

    @contextlib.contextmanager
    def named_in_logs(self) -> Iterator[None]:
        """Lines that are logged within carry the trace's id."""
        token = logs.TRACE_ID.set(self.trace.trace_id)
        try:
            yield
        finally:
            logs.TRACE_ID.reset(token)

    def end(self, failure: str = "", attributes: Mapping[str, Value] = NONE) -> None:
        """It is done; ``failure``: what went wrong, in a word or a sentence."""
        for each in self._spans:
            each.end(failure, attributes)


@contextlib.contextmanager
def recording(hop: Hop | None) -> Iterator[None]:
    """What is done within is the hop's (None: nothing is recorded); an exception is its failure."""
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
    """See the module.  One for each program."""

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
        """At the first hop, decided by the context that came with it; None: it is not recorded."""
        if not self._sampler.begins(incoming, self._clock()):
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
        """Further on, for what comes with these sampled traces; None: it is not recorded.

        Those that are ``late`` begin a new trace, with a link to the old one.
        """
        found: list[RecordedSpan] = []
        for origin in trace.distinct(origins):
            if not self._sampler.goes_on(self._clock()):
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
        """Since the start: spans ``exported`` and ``dropped``, traces ``over_ceiling``."""
        return {**self._exporter.counts(), "over_ceiling": self._sampler.over_ceiling}

    def flush(self, seconds: float = CLOSE_SECONDS_MAX) -> None:
        """Send what is there, and wait for it so long at most: for a process that may be ended at any moment."""
        self._exporter.flush(seconds)

    def close(self) -> None:
        """Send what is there; returns within ``CLOSE_SECONDS_MAX``."""
        self._exporter.close(CLOSE_SECONDS_MAX)


def endpoint_of(settings: TraceSettings, environ: Mapping[str, str]) -> str:
    """The whole address spans go to; "": they are not wanted."""
    if environ.get(SWITCHED_OFF, "").strip().lower() == "true":
        return ""
    if not settings.endpoint and (whole := environ.get(TRACES_ENDPOINT)):
        return whole
    base = (settings.endpoint or environ.get(ENDPOINT) or "").rstrip("/")
    return f"{base}{TRACES_PATH}" if base and not base.endswith(TRACES_PATH) else base


def check_installed(settings: TraceSettings) -> None:
    """For a program whose spans are opened later, in another process.  Raises ``CannotTrace``."""
    if settings.endpoint and find_spec("opentelemetry") is None:
        raise CannotTrace(f"traces.endpoint: OpenTelemetry is not installed; {REMEDY}")
    check_files(settings)


def check_files(settings: TraceSettings) -> None:
    """The exporter would read them with its first spans, when only a log line can say so.  Raises ``CannotTrace``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if settings.tls_ca:
        try:
            context.load_verify_locations(cafile=settings.tls_ca)
        except OSError as error:
            raise CannotTrace(f"traces.tls_ca {settings.tls_ca}: {error}") from None
    if settings.tls_cert and settings.tls_key:
        try:
            # Without a password: a key that needs one would be asked for at a terminal.
            context.load_cert_chain(settings.tls_cert, settings.tls_key, password=lambda: b"")
        except OSError as error:
            where = f"traces.tls_cert {settings.tls_cert} with tls_key {settings.tls_key}"
            raise CannotTrace(f"{where}: {error}") from None


def open_spans(
    settings: TraceSettings,
    *,
    room: str,
    version: str,
    environ: Mapping[str, str],
    around: Callable[[Exporter], Exporter] | None = None,
) -> Spans | None:
    """None if nothing is recorded: then no module of OpenTelemetry is loaded.

    ``around`` puts another exporter before the one that sends: for a program that shows its spans itself.

    Raises ``CannotTrace``, where our own settings ask for it; what the environment of all programs of a machine says
    may not keep one of them from starting.
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
        _log.warning("traces_off", reason=reason, remedy=f"{REMEDY}, or set {SWITCHED_OFF}=true")
        return None
    random = Random()
    sampler = Sampler(ratio=settings.ratio, ceiling_per_second=settings.ceiling_per_second, uniform=random.random)
    _log.info("traces_on", endpoint=endpoint, ratio=settings.ratio, ceiling_per_second=settings.ceiling_per_second)
    return Spans(exporter if around is None else around(exporter), sampler, time.monotonic)
