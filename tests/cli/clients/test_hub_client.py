"""Where `status` and `explain` ask, and what they say without an answer."""

from __future__ import annotations

import http.server
import threading
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fairlead_cli.clients import hub_client
from fairlead_cli.main import build


def test_the_hub_wins_over_its_settings(tmp_path: Path) -> None:
    """--hub, else http_listen of --config, else none: then the API objects are asked."""
    config = tmp_path / "hub.toml"
    config.write_text('http_listen = "127.0.0.1:7"\n')
    assert hub_client.hub_url("http://there/", config) == "http://there"
    assert hub_client.hub_url(None, config) == "http://127.0.0.1:7"
    assert hub_client.hub_url(None, None) is None


def test_a_hub_that_does_not_answer_is_one_sentence() -> None:
    with pytest.raises(click.ClickException, match=r"the hub at http://127.0.0.1:1 does not answer"):
        hub_client.ask("http://127.0.0.1:1", "/v1/nodes")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"<html>", 200, "it answered 200 with text/html"),
        (b"[1]", 200, "is not a hub"),
        (b'{"a": 1}', 200, "is not a hub"),
        (b'{"error": {"code": "x", "message": "no such path"}}', 404, "it answered 404: no such path"),
        (b"", 302, "it answered 302"),
        (b"[" * 5000, 500, "is not a hub"),
    ],
)
def test_an_address_that_is_not_a_hub_is_named(content: bytes, status: int, words: str) -> None:
    """With the address that was asked, and which one to give: most often it is another port of ours."""

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        for arguments in (["status"], ["status", "edge-1"], ["explain", "configmap/x", "--node", "n"]):
            done = CliRunner().invoke(build(), [*arguments, "--hub", url])
            assert done.exit_code == 1 and f"{url} is not a hub" in done.output and "10002" in done.output
            assert words in done.output
        server.shutdown()


@pytest.mark.parametrize("url", ["", "hub", "ftp://hub", "http://", "http://h:99999", "http://[::1", "http://a b"])
def test_what_is_no_address_is_refused(url: str) -> None:
    done = CliRunner().invoke(build(), ["status", "--hub", url])
    assert done.exit_code == 2 and "must be http://host:port" in done.output


def test_a_settings_file_that_is_none_is_named(tmp_path: Path) -> None:
    config = tmp_path / "hub.toml"
    config.write_text("a = [")
    done = CliRunner().invoke(build(), ["status", "--config", str(config)])
    assert done.exit_code == 2 and str(config) in done.output and "cannot be read as TOML" in done.output


def test_the_hubs_own_reason_is_passed_on(hub_http: str) -> None:
    with pytest.raises(click.ClickException, match="node: required"):
        hub_client.ask(hub_http, "/v1/explain", kind="x", name="y")


@pytest.mark.parametrize(
    ("answer", "command"),
    [
        ({"nodes": [{}]}, ["status"]),
        ({"nodes": [1]}, ["status"]),
        ({"nodes": {"a": 1}}, ["status"]),
        ({"node": "edge-1"}, ["status", "edge-1"]),
        ({"answer": "so"}, ["explain", "cm/a", "--node", "edge-1"]),
    ],
)
def test_a_hub_of_another_version(answer: object, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_client, "ask", lambda *_, **__: answer)
    done = CliRunner().invoke(build(), [*command, "--hub", "http://127.0.0.1:1"])
    assert done.exit_code == 1 and "http://127.0.0.1:1 is not a hub of this version: " in done.output, done.output
