"""Serves ``GET /healthz``, ``/readyz`` and ``/metrics`` over plain HTTP, and receipts if they are enabled.

A separate thread serves them, because the main thread drives Spark and may be busy for seconds. Probes are answered
from what the main thread stored in ``JobHealth``.

``GET /v1/receipts/ID`` says whether a message is in a table; a request may wait for it. It is for clients that reach
the job but not its tables, such as a producer at the edge, and answers from committed rows only. Each request reads
the files of the last days, newest first, each once; only a few requests are served at the same time.

    200 {"found": true, "pipeline", "_topic", "_batch", …}   404 {"found": false}   400 bad request   429 try later
    503 the table cannot be read now
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
from deltalake.exceptions import DeltaError
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from fairlead_ingest import errors
from fairlead_ingest.io.table.receipt import POLL_SECONDS, TableReceipts
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.table.store_path import Place
from fairlead_wire.errors import FairleadError

PATH = "/v1/receipts/"
REQUESTS_MAX = 8
RETRY_SECONDS = 1
WAIT_SECONDS_MAX = 60.0
DAYS_DEFAULT = 2
DAYS_MAX = 31
NAME_CHARS_MAX = 512


class ReceiptsHttp:
    """Answers receipt requests from all tables of a job, given as (pipeline, table format, table). Thread-safe."""

    def __init__(self, tables: Sequence[tuple[str, TableFormat, Place]]) -> None:
        self._tables = tables
        self._asking = threading.BoundedSemaphore(REQUESTS_MAX)

    def answer(self, target: str) -> tuple[int, bytes, Mapping[str, str]]:
        """Status, JSON body and headers for a request target; blocks as long as the request wants to wait."""
        try:
            name, node, wait, days = _parse(target)
        except ValueError as error:
            return _refuse(400, "bad_request", str(error))
        if not self._asking.acquire(blocking=False):
            status, body, _ = _refuse(429, "busy", f"{REQUESTS_MAX} requests are already being answered")
            return status, body, {"Retry-After": str(RETRY_SECONDS)}
        try:
            found = self._find(name, node, wait, days)
        except (FairleadError, OSError, DeltaError) as error:
            status, body, _ = _refuse(503, "table_away", errors.explain(str(error))[1])
            return status, body, {"Retry-After": str(RETRY_SECONDS)}
        finally:
            self._asking.release()
        if found is None:
            return 404, msgspec.json.encode({"found": False}), {}
        return 200, msgspec.json.encode({"found": True, **found}), {}

    def _find(self, name: str, node: str | None, wait: float, days: int) -> dict[str, Any] | None:
        since = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)).date()
        searches = [
            (pipeline, TableReceipts(table_format, table, name, node, since))
            for pipeline, table_format, table in self._tables
        ]
        deadline = time.monotonic() + wait
        while True:
            for pipeline, receipts in searches:
                found = receipts.find()
                if found is not None:
                    return {"pipeline": pipeline, **found}
            if time.monotonic() >= deadline:
                return None
            time.sleep(POLL_SECONDS)


def _parse(target: str) -> tuple[str, str | None, float, int]:
    """Message id, node, seconds and days. Raises ``ValueError`` with a sentence."""
    parts = urlsplit(target)
    name = unquote(parts.path.removeprefix(PATH))
    asked = parse_qs(parts.query, max_num_fields=8)
    unknown = set(asked) - {"node", "wait", "days"}
    if unknown:
        raise ValueError(f"{sorted(unknown)[0]}: unknown parameter; there are node, wait and days")
    node = asked.get("node", [None])[0]
    if not 0 < len(name) <= NAME_CHARS_MAX or len(node or "") > NAME_CHARS_MAX:
        raise ValueError(f"a message id is required; it and the node have at most {NAME_CHARS_MAX} characters")
    wait, days = _number(asked, "wait", 0.0, WAIT_SECONDS_MAX), _number(asked, "days", DAYS_DEFAULT, DAYS_MAX)
    return name, node, wait, int(days)


def _number(asked: Mapping[str, Sequence[str]], name: str, default: float, most: float) -> float:
    text = asked.get(name, [str(default)])[0]
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise ValueError(f"{name}: must be a number from 0 to {most:g}, not {text[:40]!r}")
    return value


def _refuse(status: int, code: str, message: str) -> tuple[int, bytes, Mapping[str, str]]:
    return status, msgspec.json.encode({"error": {"code": code, "message": message}}), {}


@dataclass(slots=True)
class JobHealth:
    """Why the job is not ready, by pipeline; it is ready when ``waiting`` is empty."""

    waiting: dict[str, str] = field(default_factory=dict)
    broken: str | None = None


class HealthServer:
    """Serves until ``close``. ``port`` is the bound port, also if 0 was given. Raises ``OSError``."""

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
                elif receipts_http is not None and path.startswith(PATH):
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
                """Log nothing: probes come every few seconds and would drown the other lines."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
