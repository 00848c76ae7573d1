"""Texts of others never steer a terminal, whichever command shows them."""

from __future__ import annotations

import http.server
import json
import threading

import pytest
from click.testing import CliRunner

from fairlead_cli.main import build
from fairlead_cli.text import printable

HOSTILE = "refused\x1b]0;owned\x07\x1b[2J\r\n\u202eok"


def test_one_line() -> None:
    """Every control character is shown as its number; what people write stays."""
    assert printable.one_line(HOSTILE) == r"refused\x1b]0;owned\x07\x1b[2J\r\n\u202eok"
    assert printable.one_line("größer als 20 °C, 温度") == "größer als 20 °C, 温度"


def test_lines() -> None:
    assert printable.lines("a\n\tb\x1b[2J") == "a\n\tb\\x1b[2J"


class Hub(http.server.BaseHTTPRequestHandler):
    """Passes on what a node said, as a hub does."""

    def do_GET(self) -> None:
        row = {"node": "edge-1", "connected": True, "wanted": 1, "held": 0, "pending": 0, "parked": 1}
        row |= {"lastContact": None, "rules": HOSTILE}
        parked = {"key": "a", "code": "refused", "reason": HOSTILE, "retries": 3}
        record = {"node": "edge-1", "kind": "a", "namespace": "", "object_name": "b", "reason": HOSTILE, "retries": 3}
        path = self.path.partition("?")[0]
        answers = {
            "/v1/nodes": (200, {"nodes": [row], "parked": [record]}),
            "/v1/nodes/edge-1": (200, {**row, "parkedObjects": [parked]}),
            "/v1/explain": (200, {"code": "parked", "answer": HOSTILE, "key": HOSTILE}),
        }
        status, answer = answers.get(path, (404, {"error": {"message": HOSTILE}}))
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["status", "edge-1"],
        ["status", "edge-2"],
        ["explain", "configmap/a", "--node", "edge-1"],
    ],
)
def test_what_a_node_said_is_shown_and_not_obeyed(command: list[str]) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}"
            done = CliRunner().invoke(build(), [*command, "--hub", url, "--color", "never"])
        finally:
            server.shutdown()
    assert r"refused\x1b]0;owned\x07" in done.output, done.output
    assert not set("\x1b\x07\r\u202e") & set(done.output), done.output


def test_a_line_of_json_keeps_its_value() -> None:
    """JSON takes what a terminal obeys: DEL, the second set of controls, marks that turn the direction."""
    found = {"event": "a\x7f\x9b2Jb\u202ec\U000e0001", "ü": "ö"}
    text = json.dumps(found, ensure_ascii=False).replace(": ", ":\r\t")
    shown = printable.json_line(text)
    assert json.loads(shown) == found and shown.isprintable() and "ö" in shown
    assert printable.json_line('{"event": "ö"}') == '{"event": "ö"}'
