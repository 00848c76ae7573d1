"""`fairlead edge move` as people type it; what it does is tried in tests/edge/test_move_live.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead_cli.main import build

URL = "wss://hub.example:10000"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give the new hub's URL and --token-file"),
        ((URL,), "give the new hub's URL and --token-file"),
        (("ws://hub.example:10000", "--token-file", "-"), "not encrypted"),
        ((URL, "--token-file", "-", "--deadline", "soon"), "deadline"),
        ((URL, "--token-file", "-", "--undelivered", "drop"), "take-along"),
        ((URL, "--token-file", "-"), "--token-file"),
    ],
)
def test_wrong_use_is_2_with_a_sentence(arguments: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(build(), ["edge", "move", *arguments], input="no token")
    assert done.exit_code == 2 and said in done.output, done.output


def test_a_device_that_belongs_to_no_hub(tmp_path: Path) -> None:
    done = CliRunner().invoke(build(), ["edge", "move", "--cancel", "--config", str(tmp_path / "edge.toml")])
    assert done.exit_code == 1 and "fairlead edge join" in done.output
