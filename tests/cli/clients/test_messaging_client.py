"""Where the service is and who we are; how what it says is shown."""

from __future__ import annotations

import http.server
import threading
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.support.joining.pki import Authority
from tests.support.topics.messaging_service import MessagingService

from fairlead_cli.clients import messaging_client
from fairlead_cli.main import build


@pytest.mark.process
def test_a_rooms_settings_say_where_and_who(tmp_path: Path) -> None:
    with MessagingService(tmp_path / "service", authority=Authority(tmp_path / "pki")) as service:
        assert service.tls is not None
        config = tmp_path / "ingest.toml"
        config.write_text(
            f'messaging_url = "{service.url}"\ntls_ca = "{service.tls.ca}"\n'
            f'tls_cert = "{service.tls.cert}"\ntls_key = "{service.tls.key}"\n'
        )
        service.create("default/t")
        listed = CliRunner().invoke(build(), ["topics", "--config", str(config), "list"])
        assert (listed.exit_code, listed.stdout) == (0, "t\n"), listed.stderr
        elsewhere = CliRunner().invoke(
            build(), ["topics", "--config", str(config), "--url", "http://127.0.0.1:1", "list"]
        )
        assert elsewhere.exit_code == 1


def test_the_services_own_settings_will_do(tmp_path: Path) -> None:
    config = tmp_path / "messaging.toml"
    config.write_text('http_listen = "127.0.0.1:12345"\nsecurity = "insecure"\n')
    assert messaging_client.account(None, config, None, None, None).url == "http://127.0.0.1:12345"
    config.write_text('http_listen = "127.0.0.1:12345"\n')
    assert messaging_client.account(None, config, None, None, None).url == "https://127.0.0.1:12345"
    assert messaging_client.account(None, None, None, None, None).url == messaging_client.DEFAULT_URL


def test_settings_that_cannot_be_read_are_a_usage_error(tmp_path: Path) -> None:
    config = tmp_path / "bad.toml"
    config.write_text("=")
    with pytest.raises(click.UsageError, match=r"bad\.toml"):
        messaging_client.account(None, config, None, None, None)


@pytest.mark.parametrize("url", ["https://127.0.0.1:1", "ftp://x", "nonsense"])
def test_an_address_that_cannot_work_is_exit_2(url: str) -> None:
    assert CliRunner().invoke(build(), ["topics", "--url", url, "list"]).exit_code == 2


def test_an_unreachable_service_is_exit_1() -> None:
    answer = CliRunner().invoke(build(), ["topics", "--url", "http://127.0.0.1:1", "list"])
    assert answer.exit_code == 1
    assert "127.0.0.1:1" in answer.stderr


def test_another_program_is_not_called_the_messaging_service() -> None:
    """As with --hub: the 404 of a hub says nothing about topics."""

    class Hub(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.send_header("Content-Length", "14")
            self.end_headers()
            self.wfile.write(b"404: Not Found")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        done = CliRunner().invoke(build(), ["topics", "list", "--url", url])
    assert done.exit_code == 1
    assert f"{url} is not the messaging service: it answered 404; is this its http_listen?" in done.stderr


@pytest.mark.parametrize("command", ["topics list", "tail a/b", "ingest jobs"])
def test_errors_begin_like_those_of_all_other_commands(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_MESSAGING_URL", "http://127.0.0.1:1")
    result = CliRunner().invoke(build(), command.split(), prog_name="fairlead")
    assert result.exit_code == 1
    assert result.output.startswith("Error: http://127.0.0.1:1 cannot be reached: connection refused")


@pytest.mark.parametrize("name", ["a b", "a/b/c", "ä", "a" * 201, "a/", "../x"])
@pytest.mark.parametrize("command", ["ingest check contract.json", "topics show", "tail"])
def test_a_name_that_no_topic_can_have_is_wrong_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "contract.json").write_text("{}")
    result = CliRunner().invoke(build(), [*command.split(), name])
    assert result.exit_code == 2, result.output
