"""What `fairlead edge join` and `fairlead edge move` refuse alike, before anything is read or asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead_cli.main import build

URL = "wss://hub.example.com:10000"
COMMANDS = pytest.mark.parametrize("command", ["join", "move"])


@COMMANDS
@pytest.mark.parametrize(
    ("hub", "sentence"),
    [
        ("fl1-aaaaaaaaaa-bbb", "that is a token: first the hub's URL"),
        (URL, "one is like fl1-<10 letters>"),
        ("ws://hub:10000", "ws:// is not encrypted: join with wss://"),
        ("wss://hub", "name the port, for example wss://hub:10000"),
        ("wss://hub:port", "is no URL; one is like"),
        ("https://hub:1", "is no URL of a hub"),
        ("wss://my hub:1", "is no URL of a hub"),
        ("wss://me:secret@hub:1", "is no URL of a hub"),
    ],
)
def test_wrong_use_is_exit_code_2(command: str, hub: str, sentence: str) -> None:
    """Each with what to do instead; the text of a token is not repeated."""
    done = CliRunner().invoke(build(), ["edge", command, hub, "--token-file", "-"], input="fl1-not-a-token")
    assert done.exit_code == 2 and sentence in done.stderr, done.stderr
    assert "not-a-token" not in done.stderr


@COMMANDS
def test_a_token_of_another_encoding_is_wrong_use(command: str, tmp_path: Path) -> None:
    """As some shells write what is redirected."""
    file = tmp_path / "token"
    file.write_text("fl1-aaaaaaaaaa", encoding="utf-16")
    done = CliRunner().invoke(build(), ["edge", command, URL, "--token-file", str(file)])
    assert done.exit_code == 2 and "--token-file: cannot be read as text" in done.stderr
