"""A test collector: takes spans over OTLP/HTTP (protobuf, gzip or plain) and shows them as trees.

with Collector() as collector:
    …  # programs with endpoint = collector.url
    collector.tree(trace_id)   ->  ["publish [fairlead-edge]", "  upstream batch [fairlead-edge]", …]
"""

from __future__ import annotations

import gzip
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class SeenSpan:
    """One received span."""

    service: str
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    is_error: bool
    attributes: dict[str, Any] = field(default_factory=dict)
    links: tuple[tuple[str, str], ...] = ()


class Collector:
    """See the module; ``status``: of every response; spans are kept only if it is 200."""

    def __init__(self, *, status: int = 200) -> None:
        self._lock = threading.Lock()
        self._spans: list[SeenSpan] = []
        self.requests = 0
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    raw = gzip.decompress(raw)
                collector.take(ExportTraceServiceRequest.FromString(raw), keep=status == 200)
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Not on the terminal."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, request: Any, *, keep: bool) -> None:
        with self._lock:
            self.requests += 1
            if keep:
                self._spans += _read(request)

    @property
    def spans(self) -> list[SeenSpan]:
        with self._lock:
            return list(self._spans)

    def names(self) -> list[str]:
        return sorted(each.name for each in self.spans)

    def paths(self, trace_id: str) -> set[str]:
        """The paths of spans in the trace, without repetitions: ``publish [a] > store [b]``."""
        found: set[str] = set()
        above: list[str] = []
        for line in self.tree(trace_id):
            depth = (len(line) - len(line.lstrip())) // 2
            above[depth:] = [line.lstrip()]
            found.add(" > ".join(above))
        return found

    def tree(self, trace_id: str) -> list[str]:
        """The spans of one trace, children below their parents, in the order in which they began."""
        found = sorted((each for each in self.spans if each.trace_id == trace_id), key=lambda each: each.start_ns)
        known = {each.span_id for each in found}

        def lines(parent: SeenSpan | None, depth: int) -> list[str]:
            shown = []
            for each in found:
                is_here = each.parent_id == parent.span_id if parent else each.parent_id not in known
                if is_here:
                    shown.append(f"{'  ' * depth}{each.name} [{each.service}]")
                    shown += lines(each, depth + 1)
            return shown

        return lines(None, 0)


def _read(request: Any) -> list[SeenSpan]:
    found: list[SeenSpan] = []
    for resource in request.resource_spans:
        service = next((a.value.string_value for a in resource.resource.attributes if a.key == "service.name"), "")
        for scope in resource.scope_spans:
            found += (_seen(service, span) for span in scope.spans)
    return found


def _seen(service: str, span: Any) -> SeenSpan:
    return SeenSpan(
        service=service,
        name=span.name,
        kind=span.kind,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        is_error=span.status.code == 2,
        attributes={each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in span.attributes},
        links=tuple((each.trace_id.hex(), each.span_id.hex()) for each in span.links),
    )
