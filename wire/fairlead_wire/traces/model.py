"""The settings table ``[traces]`` of hub, messaging and ingest: like ``settings``, as a pydantic model."""

from __future__ import annotations

from typing import Annotated, Self

import pydantic
from pydantic import Field

from fairlead_wire.traces import settings
from fairlead_wire.traces.settings import CEILING_PER_SECOND, CEILING_PER_SECOND_MAX
from fairlead_wire.validation import mistakes
from fairlead_wire.validation.file_path import FilePath
from fairlead_wire.validation.model import Model


class TracesModel(Model):
    """Where spans are sent, and how many."""

    endpoint: str | None = None
    """Collector that accepts OTLP over HTTP, `http://host:4318`; `/v1/traces` is appended. If not set, the
    environment's `OTEL_EXPORTER_OTLP_ENDPOINT`; without either, nothing is recorded. Needs the extra `traces`."""
    ratio: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of requests without a `traceparent` that start a trace: object changes at the hub, publish requests at
    messaging; 0: none."""
    ceiling_per_second: Annotated[float, Field(ge=0, le=CEILING_PER_SECOND_MAX)] = CEILING_PER_SECOND
    """Maximum number of traces recorded a second, whatever clients request."""
    tls_ca: FilePath | None = None
    """Authority of the collector. If not set, the system's."""
    tls_cert: FilePath | None = None
    """Client certificate for the collector; with `tls_key`."""
    tls_key: FilePath | None = None
    """The key of `tls_cert`."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        mistakes.refuse(settings.find(self))
        return self
