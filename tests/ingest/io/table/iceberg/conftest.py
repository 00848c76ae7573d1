"""A table of Iceberg in a folder, and services that answer as a catalog might."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.support.tables.iceberg_table import Answers, IcebergTable, Serve


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    return IcebergTable(tmp_path)


@pytest.fixture
def asked() -> list[tuple[str, str]]:
    """Path and body of each request to what ``serve`` started."""
    return []


@pytest.fixture
def serve(asked: list[tuple[str, str]]) -> Iterator[Serve]:
    """Starts services on threads of this process; returns the address of each."""
    servers: list[ThreadingHTTPServer] = []

    def start(answers: Answers) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                said = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                asked.append((self.path, said))
                status, headers, body = answers(self.path)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
