"""``GET /healthz``, ``/readyz`` and ``/metrics`` in plain HTTP, from a thread of its own; receipts where they are on.

The job's main thread drives Spark and may be busy for seconds; probes are answered all the same, from
facts the main thread left in ``JobHealth``.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from fairlead_ingest.io.http import receipts
from fairlead_ingest.io.http.receipts import ReceiptsHttp


@dataclass(slots=True)
class JobHealth:
    """Why the job is not ready, by pipeline; ready when there is no reason left."""

    waiting: dict[str, str] = field(default_factory=dict)
    broken: str | None = None


class HealthServer:
    """Serves until ``close``. ``port`` is the one bound, also when 0 was asked for. Raises ``OSError``."""

    def __init__(
        self,
        host: str,
        port: int,
        health: JobHealth,
        registry: CollectorRegistry,
        receipts_http: ReceiptsHttp | None = None,
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path = self.path.split("?", 1)[0]
                if path == "/metrics":
                    self._answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)
                elif path == "/healthz":
                    broken = health.broken
                    self._answer(500 if broken else 200, (broken or "ok").encode() + b"\n")
                elif path == "/readyz":
                    reasons = [f"{name}: {why}" for name, why in sorted(health.waiting.copy().items())]
                    self._answer(503 if reasons else 200, ("\n".join(reasons) or "ok").encode() + b"\n")
                elif receipts_http is not None and path.startswith(receipts.PATH):
                    status, body, headers = receipts_http.answer(self.path)
                    self._answer(status, body, "application/json", headers)
                else:
                    self._answer(404, b"not found\n")

            def _answer(
                self,
                status: int,
                body: bytes,
                content_type: str = "text/plain; charset=utf-8",
                headers: Mapping[str, str] | None = None,
            ) -> None:
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Probes are asked every few seconds; a log line for each would bury the others."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
