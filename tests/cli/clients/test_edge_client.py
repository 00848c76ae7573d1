"""Asking one agent: what it answers, and sentences for what goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fairlead_cli.clients import edge_client
from fairlead_cli.main import build
from fairlead_edge.io.client import EdgeClient
from fairlead_wire.errors import Permanent


class Agent(BaseHTTPRequestHandler):
    """Answers by path."""

    def do_GET(self) -> None:
        allowed = self.headers.get("Authorization") == "Bearer s3cret"
        status, body = {"/held": (200, b'{"kind": "ConfigMap"}'), "/text": (200, b"hello")}.get(self.path, (404, b"{}"))
        self.send_response(status if allowed else 401)
        self.end_headers()
        self.wfile.write(body if allowed else b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Agent)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_objects(url: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    assert edge_client.get(url, token, "held") == {"kind": "ConfigMap"}
    assert edge_client.get(url, token, "none") is None
    with pytest.raises(click.ClickException, match="is not the address of an agent"):
        edge_client.get(url, token, "text")
    with pytest.raises(click.ClickException, match="answered 401; give the agent's data_dir/token with --token-file"):
        edge_client.get(url, None, "held")
    token.write_text("wrong")
    with pytest.raises(click.ClickException, match=r"refused the token in .*token \(401\)"):
        edge_client.get(url, token, "held")


@pytest.mark.parametrize("line", ["status", "receipt 1-2", "deadletters list"])
def test_a_wrong_token_is_not_called_a_missing_one(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("wrong")

    def refuse(*_: object, **__: object) -> None:
        raise Permanent("this listener needs the token", code="unauthorized")

    for call in ("status", "receipt", "dead_letters"):
        monkeypatch.setattr(EdgeClient, call, refuse)
    at = ["--url", "http://127.0.0.1:1"]
    done = CliRunner().invoke(build(), ["edge", *line.split(), *at, "--token-file", str(token)])
    assert done.exit_code == 1 and f"refused the token in {token} (401)" in done.output, done.output
    done = CliRunner().invoke(build(), ["edge", *line.split(), *at])
    assert done.exit_code == 1 and "requires its token" in done.output, done.output


@pytest.mark.slow
def test_the_token_goes_nowhere_else(tmp_path: Path) -> None:
    """An answer that sends elsewhere is not followed: the token would go along."""
    seen: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    token = tmp_path / "token"
    token.write_text("s3cret")
    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with pytest.raises(click.ClickException, match="answered 302"):
                edge_client.get(f"http://127.0.0.1:{server.server_port}", token, "held")
        finally:
            server.shutdown()
            thread.join()
    assert seen == ["/held"]


def test_what_cannot_be_asked(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="does not answer: Connection refused"):
        edge_client.get("http://127.0.0.1:1", None, "held")
    with pytest.raises(click.UsageError, match="address must be http://host:port"):
        edge_client.get("nonsense", None, "held")
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    with pytest.raises(click.UsageError, match="--token-file"):
        edge_client.client("http://127.0.0.1:1", tmp_path / "token")


def test_without_an_address_it_is_the_agent_of_this_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its settings say that it listens, with its own token; which is never sent to an address given by hand."""
    seen: list[tuple[str, Path | None]] = []

    @click.command()
    @edge_client.options
    def command(url: str, token_file: Path | None) -> None:
        seen.append((url, token_file))

    config, token = tmp_path / "edge.toml", tmp_path / "token"
    monkeypatch.setattr(edge_client, "DEVICE_SETTINGS", config)
    runner = CliRunner()
    assert runner.invoke(command).exit_code == 0
    config.write_text(
        f'node = "n"\nhub_url = "ws://hub:1"\nsecurity = "insecure"\ndata_dir = "{tmp_path}"\n'
        'http_listen = "127.0.0.1:10551"\n'
    )
    token.write_text("t")
    assert runner.invoke(command).exit_code == runner.invoke(command, ["--url", "http://127.0.0.1:9"]).exit_code == 0
    assert seen == [
        (edge_client.DEFAULT_URL, None), ("http://127.0.0.1:10551", token), ("http://127.0.0.1:9", None)
    ]  # fmt: skip
    monkeypatch.setattr(edge_client, "DEVICE_SETTINGS", tmp_path / "none.toml")
    assert runner.invoke(command, ["--config", str(config)]).exit_code == 0
    assert seen[-1] == ("http://127.0.0.1:10551", token), "of another file"
    assert runner.invoke(command, ["--config", str(config), "--url", "http://127.0.0.1:9"]).exit_code == 2
    monkeypatch.setattr(edge_client, "DEVICE_SETTINGS", config)
    config.write_text("node = 7\n")
    refused = runner.invoke(command)
    assert refused.exit_code == 1 and "--url" in refused.output


def test_a_token_that_is_wanted_or_may_not_be_read_is_said_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with the header of a request; and what root may read needs sudo."""
    monkeypatch.setattr(edge_client, "DEVICE_SETTINGS", tmp_path / "none.toml")
    assert "--token-file" in edge_client.failed(Permanent("show the token: Bearer", code="unauthorized")).message
    assert edge_client.failed(Permanent("it is closed", code="other")).message == "it is closed"
    config = tmp_path / "edge.toml"
    config.write_text("")
    monkeypatch.setattr(edge_client, "_may_read", lambda path: path != config)
    with pytest.raises(click.ClickException, match=r"edge\.toml: Permission denied; run it with sudo"):
        edge_client.AgentPlace(config=config).found()
