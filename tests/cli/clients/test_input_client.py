"""How a token and a certificate go to a hub, and where they do not go."""

from __future__ import annotations

import socket
from pathlib import Path
from threading import Thread

import click
import pytest

from fairlead_cli.clients.input_client import HubAddress, InputClient


def test_a_token_goes_over_tls_or_to_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("abc.def\n")
    for url in ("https://hub:1", "http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"):
        assert HubAddress(url=url, token_file=file).token() == "abc.def"
    with pytest.raises(click.UsageError, match="https"):
        HubAddress(url="http://hub:1", token_file=file).token()
    assert HubAddress(url="http://hub:1").token() == ""


@pytest.mark.parametrize("content", ["", "a b", "a\nb", "é", "x" * 8193])
def test_what_is_no_token_is_not_sent(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(click.UsageError, match="holds no token"):
        HubAddress(url="https://hub:1", token_file=file).token()


def test_files_that_cannot_be_used_are_said(tmp_path: Path) -> None:
    file = tmp_path / "ca"
    file.write_text("nothing")
    with pytest.raises(click.UsageError, match="--tls-ca"):
        HubAddress(url="https://hub:1", tls_ca=file).context()
    assert HubAddress(url="http://hub:1", tls_ca=file).context() is None


def test_a_lost_answer_names_the_key_to_send_it_again_with() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            accepted, _ = server.accept()
            accepted.recv(65536)
            accepted.close()

        thread = Thread(target=hang_up)
        thread.start()
        hub = HubAddress(url=f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(click.ClickException, match=r"again with --idempotency-key [0-9a-f]{32}"):
            InputClient(hub, "edge-1", "m", "i").send(b'{"body":1}', ttl=5.0, key=None)
        thread.join()
