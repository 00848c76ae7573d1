"""`fairlead edge leave` as people type it; what it does is tried in tests/edge/test_leave_live.py."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fairlead_cli.main import build

NOBODY = 65534


def run(*arguments: str) -> Result:
    return CliRunner().invoke(build(), ["edge", "leave", *arguments])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "outbox.db").write_text("kept")
    path = tmp_path / "edge.toml"
    path.write_text(
        f'node = "edge-1"\nhub_url = "ws://127.0.0.1:1"\nsecurity = "insecure"\ndata_dir = "{tmp_path}/data"\n'
    )
    return path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--deadline", "soon"), "deadline"),
        (("--undelivered", "drop"), "leave"),
        (("--cancel", "--purge"), "give one"),
    ],
)
def test_wrong_use_is_2_with_a_sentence(arguments: tuple[str, ...], said: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2 and said in done.output, done.output


def test_a_device_that_belongs_to_no_hub(tmp_path: Path) -> None:
    done = run("--config", str(tmp_path / "edge.toml"))
    assert done.exit_code == 1 and "fairlead edge join" in done.output and "edge.toml does not exist" in done.output


def test_nothing_to_cancel(config: Path) -> None:
    """It speaks of leaving, not of a move."""
    done = run("--cancel", "--config", str(config))
    assert (done.exit_code, done.output) == (1, "Error: this node is not leaving its hub; nothing was changed\n")


@pytest.mark.parametrize("arguments", [(), ("--cancel",), ("--purge", "--yes")])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_files_of_another_user(arguments: tuple[str, ...]) -> None:
    """One sentence with the owner; not a traceback, nor that an agent is running."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        data, config = Path(made) / "data", Path(made) / "edge.toml"
        (data / "identity").mkdir(parents=True)
        (data / "identity").chmod(0o700)
        data.chmod(0o755)
        config.write_text(f'node = "edge-1"\nhub_url = "wss://127.0.0.1:1"\ndata_dir = "{data}"\n')
        config.chmod(0o644)
        os.seteuid(NOBODY)
        try:
            done = run("--config", str(config), *arguments)
        finally:
            os.seteuid(0)
    said = f"Error: {data}/identity: Permission denied: it belongs to user root; run it with sudo, or as"
    assert done.exit_code == 1 and done.output.startswith(said), done.output


def test_a_purge_needs_a_terminal_or_yes(config: Path) -> None:
    done = run("--purge", "--undelivered", "leave", "--config", str(config))
    assert done.exit_code == 2 and "--yes" in done.output
    assert (config.parent / "data" / "outbox.db").exists()


def test_it_says_what_is_next(config: Path) -> None:
    """Without an agent, for which nothing is delivered any more; then with what is not the agent's."""
    done = run("--undelivered", "leave", "--config", str(config))
    assert done.exit_code == 0 and done.output.endswith("in the cluster: fairlead node delete edge-1\n"), done.output
    (config.parent / "data" / "notes").write_text("of a person")
    for written in ("encryption.keys", "encryption.keys.copy", "encryption.keys.new", ".last-session.json.new"):
        (config.parent / "data" / written).write_text("the agent's")
    done = run("--purge", "--yes", "--config", str(config))
    assert "left alone        notes: not the agent's" in done.output and "and purged" in done.output
