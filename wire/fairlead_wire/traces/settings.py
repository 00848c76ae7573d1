"""The table ``[traces]`` of the agent's settings; ``model`` is its form for the cluster's programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from fairlead_wire.validation import mistakes
from fairlead_wire.validation.file_path import FilePath
from fairlead_wire.validation.mistakes import Mistake, shown

EDGE_CEILING_PER_SECOND: Final = 10.0
"""Default on a device."""
CEILING_PER_SECOND: Final = 100.0
"""Default in the cluster, where many devices connect."""
CEILING_PER_SECOND_MAX: Final = 10_000.0


class TraceSettings(Protocol):
    """The fields that both forms have."""

    @property
    def endpoint(self) -> str | None: ...
    @property
    def ratio(self) -> float: ...
    @property
    def ceiling_per_second(self) -> float: ...
    @property
    def tls_ca(self) -> str | None: ...
    @property
    def tls_cert(self) -> str | None: ...
    @property
    def tls_key(self) -> str | None: ...


class TracesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where spans are sent, and how many."""

    endpoint: str | None = None
    """Collector that accepts OTLP over HTTP, `http://host:4318`; `/v1/traces` is appended. If not set, the
    environment's `OTEL_EXPORTER_OTLP_ENDPOINT`; without either, nothing is recorded. Needs the extra `traces`."""
    ratio: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Share of publish requests without a `traceparent` that start a trace; 0: only requests that have one are
    traced."""
    ceiling_per_second: Annotated[float, Meta(ge=0, le=CEILING_PER_SECOND_MAX)] = EDGE_CEILING_PER_SECOND
    """Maximum number of traces recorded a second, whatever clients request."""
    tls_ca: FilePath | None = None
    """Authority of the collector. If not set, the system's."""
    tls_cert: FilePath | None = None
    """Client certificate for the collector; with `tls_key`."""
    tls_key: FilePath | None = None
    """The key of `tls_cert`."""

    def __post_init__(self) -> None:
        mistakes.refuse(find(self))


def find(settings: TraceSettings) -> Iterator[Mistake]:
    """The mistakes in these settings."""
    if settings.endpoint is not None:
        try:
            url = urlsplit(settings.endpoint)
            is_usable = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
        except ValueError:
            is_usable = False
        if not is_usable:
            yield Mistake("endpoint", f"must be http://host:port or https://host:port, is {shown(settings.endpoint)}")
    if (settings.tls_cert is None) != (settings.tls_key is None):
        missing = "tls_key" if settings.tls_key is None else "tls_cert"
        yield Mistake(missing, "tls_cert and tls_key go together")
