"""`fairlead send`: what leaves, what is shown, and what exit codes mean."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fairlead_cli.main import build

ID = "a" * 32


class FakeHub(ThreadingHTTPServer):
    """Answers a POST with ``accepted``, and questions with ``states`` one after the other."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.states: list[dict[str, Any]] = []
        self.requests: list[tuple[str, Any, dict[str, str]]] = []
        self.refusal: tuple[int, Any] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, content, dict(self.headers)))
        self._answer(*(self.server.refusal or (202, {"id": ID, "state": "accepted"})))

    def do_GET(self) -> None:
        self.server.requests.append((self.path, None, dict(self.headers)))
        if not self.server.states:
            self._answer(404, {"error": {"code": "no_message", "message": "nothing"}})
        else:
            self._answer(200, {"id": ID, **self.server.states.pop(0)})

    def _answer(self, status: int, body: Any) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if status in (429, 503):
            self.send_header("Retry-After", "7")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as opened:
        serving = Thread(target=opened.serve_forever, args=(0.01,))
        serving.start()
        yield opened
        opened.shutdown()
        serving.join()


def send(hub: FakeHub, *arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(build(), ["send", "edge-1", "camera/commands", *arguments, "--hub", hub.url], input=stdin)


def test_json_goes_as_it_was_written_with_its_properties(hub: FakeHub) -> None:
    more = ("-p", "a=b=c", "--message-id", "m", "--correlation-id", "c", "--idempotency-key", "k", "--ttl", "5")
    found = send(hub, '{"x" : 1.10}', *more)
    assert found.exit_code == 0 and f"{ID}  accepted" in found.output, found.output
    [(path, content, headers)] = hub.requests
    assert path == "/v1/nodes/edge-1/inputs/camera/commands/messages?ttl=5"
    assert b'"body":{"x" : 1.10}' in content and headers["Idempotency-Key"] == "k"
    sent = json.loads(content)
    assert sent["properties"] == {"a": "b=c"} and sent["systemProperties"] == {"messageId": "m", "correlationId": "c"}


@pytest.mark.parametrize("body", [b"plain", b"\xff\x00", b"NaN", b""])
def test_what_is_no_json_goes_as_bytes(hub: FakeHub, body: bytes) -> None:
    import base64

    assert send(hub, stdin=body).exit_code == 0 == send(hub, "--file", "-", stdin=body).exit_code
    for _, content, _ in hub.requests:
        assert base64.b64decode(json.loads(content)["bodyBase64"]) == body


def test_a_receipt_follows_it_to_its_end(hub: FakeHub) -> None:
    hub.states = [{"state": "delivered"}, {"state": "consumed"}]
    found = send(hub, "1", "--receipt")
    assert found.exit_code == 0 and "consumed" in found.output
    for end in ("expired", "dead_lettered", "evicted", "refused"):
        hub.states = [{"state": end, "reason": "why"}]
        found = send(hub, "1", "--receipt", "-o", "json")
        assert found.exit_code == 1 and json.loads(found.stdout) == {"id": ID, "state": end, "reason": "why"}
    hub.states = []
    assert send(hub, "1", "--receipt").exit_code == 1
    found = send(hub, "1", "--receipt", "--wait", "0")
    assert found.exit_code == 1 and "accepted" in found.output, "its time to wait is over"


def test_refusals_are_sentences_with_their_code(hub: FakeHub) -> None:
    hub.refusal = (429, {"error": {"code": "too_many_waiting", "message": "1000 wait"}})
    found = send(hub, "1")
    assert found.exit_code == 1 and "too_many_waiting: 1000 wait (try again in 7 s)" in found.output
    for answer in (b"<html>", b"[]", b'{"error": 1}'):
        hub.refusal = (500, answer)
        assert "is not a hub that accepts messages: it answered 500" in send(hub, "1").output
    hub.refusal = (200, b"[]")
    assert send(hub, "1").exit_code == 1


@pytest.mark.parametrize(
    "arguments",
    [["1", "--ttl", "0"], ["1", "--ttl", "604801"], ["1", "-p", "x"], ["1", "--file", "-"], ["1", "--wait", "-1"]],
)
def test_wrong_use_is_two(hub: FakeHub, arguments: list[str]) -> None:
    assert send(hub, *arguments).exit_code == 2 and hub.requests == []


def test_a_place_names_module_and_input(hub: FakeHub) -> None:
    for place in ("camera", "/x", "camera/", "a/b/c"):
        found = CliRunner().invoke(build(), ["send", "edge-1", place, "1", "--hub", hub.url])
        assert found.exit_code == 2 and hub.requests == []


def test_a_body_that_no_node_takes_is_not_sent(hub: FakeHub) -> None:
    assert send(hub, stdin=b"x" * (256 * 1024 + 1)).exit_code == 1 and hub.requests == []


@pytest.mark.parametrize("body", ['{"do": "restart"', "[1, 2", '{"x": NaN}', "{'do': 1}"])
def test_broken_json_is_refused_unless_it_is_meant(hub: FakeHub, body: str) -> None:
    refused = send(hub, body)
    assert refused.exit_code == 2 and "begins like JSON but is not" in refused.output and "--raw" in refused.output
    assert hub.requests == []
    assert send(hub, body, "--raw").exit_code == 0
    [(_, content, _)] = hub.requests
    assert base64.b64decode(json.loads(content)["bodyBase64"]) == body.encode()
