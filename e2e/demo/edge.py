"""One edge node as its applications see it: reads, a watch, publishing, status. Plain HTTP on loopback."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
TIMEOUT_SECONDS = 30.0


class Refused(AssertionError):
    """The edge answered with another status than 200; the text holds status and body."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status

    @property
    def temporary(self) -> bool:
        """True when the same request is worth repeating later."""
        return self.status in (429, 503, 507)


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A node's agent on this machine; `token` is the file of the token required for Secrets."""

    name: str
    port: int
    token: Path

    def headers(self) -> dict[str, str]:
        """Headers with the token."""
        return {"Authorization": f"Bearer {self.token.read_text().strip()}"} if self.token.exists() else {}

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Any:
        """One call; returns the decoded JSON, raises Refused or OSError."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request(method, path, body or None, {**self.headers(), **(headers or {})})
            answer = connection.getresponse()
            text = answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{self.name} broke off: {error!r}") from error
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise Refused(
                answer.status, f"{self.name} {method} {path}: {answer.status} {text[:500].decode(errors='replace')}"
            )
        return json.loads(text)

    def items(self, path: str) -> list[dict[str, Any]]:
        """The objects of a list path."""
        found: list[dict[str, Any]] = self.request("GET", path)["items"]
        return found

    def status(self) -> dict[str, Any]:
        """GET /v1/status."""
        found: dict[str, Any] = self.request("GET", "/v1/status")
        return found

    def publish(self, messages: Sequence[Mapping[str, Any]], key: str) -> list[dict[str, Any]]:
        """Publish a batch under an idempotency key; the results come after everything accepted is on disk."""
        body = json.dumps({"messages": list(messages)}).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        results: list[dict[str, Any]] = self.request("POST", "/v1/messages", body, headers)["results"]
        return results


@dataclass(kw_only=True)
class Watch:
    """A watch on a list path, read by its own thread until `close`."""

    edge: Edge
    path: str
    events: list[dict[str, Any]] = field(default_factory=list)

    def open(self) -> Watch:
        """List, then watch from there."""
        version = self.edge.request("GET", self.path)["metadata"]["resourceVersion"]
        # The stream may be silent for as long as nothing changes.
        self._connection = http.client.HTTPConnection(HOST, self.edge.port, timeout=None)
        self._connection.request(
            "GET", f"{self.path}?watch=true&resourceVersion={version}", headers=self.edge.headers()
        )
        self._socket = self._connection.sock
        self._answer = self._connection.getresponse()
        if self._answer.status != http.client.OK:
            raise Refused(self._answer.status, f"{self.edge.name} watch {self.path}: {self._answer.read(500)!r}")
        self._thread = threading.Thread(target=self._read, name=f"watch-{self.edge.name}", daemon=True)
        self._thread.start()
        return self

    def _read(self) -> None:
        try:
            while line := self._answer.readline():
                if line.strip():
                    self.events.append(json.loads(line))
        except (OSError, ValueError, http.client.HTTPException):
            return  # closed by us, or the edge ended: what came until then counts

    def of(self, name: str) -> list[dict[str, Any]]:
        """The events about objects with this name, without bookmarks."""
        return [
            event
            for event in list(self.events)
            if event["type"] != "BOOKMARK" and event["object"]["metadata"]["name"] == name
        ]

    def close(self) -> None:
        """End the stream and wait for its reader."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(TIMEOUT_SECONDS)
        self._connection.close()
