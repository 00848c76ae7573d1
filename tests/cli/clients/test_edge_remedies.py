"""What to do if an agent does not answer, or refuses: it depends on how it was named."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fairlead_cli.clients import edge_client
from fairlead_cli.main import build
from fairlead_edge.io.moving.files import LeftService, MoveFiles
from fairlead_wire.errors import FairleadError, Permanent, Temporary

NOBODY = 65534
UNKNOWN = Permanent("show the token: Bearer", code="unauthorized")


@pytest.mark.parametrize(
    ("error", "arguments", "said"),
    [
        (
            UNKNOWN,
            ["--url", "http://127.0.0.1:9"],
            "--token-file, or --config instead of --url",
        ),
        (UNKNOWN, ["--url", "http://127.0.0.1:9", "--token-file", "FILE"], "refused the token in"),
        (UNKNOWN, [], "name its settings with --config"),
        (UNKNOWN, ["--config", "CONFIG"], "run it with sudo"),
        (Temporary("no answer."), [], "none.toml does not exist: if the device joined with --config FILE"),
        (Temporary("no answer."), ["--config", "CONFIG"], "n was taken out of service at 2026-11-23T08:00:00Z"),
        (Temporary("no answer."), ["--url", "http://127.0.0.1:9"], "Error: no answer.\n"),
    ],
)
def test_the_remedy_is_not_what_was_done_already(
    error: FairleadError, arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It depends on how the agent was named, and on what its folder says."""

    @click.command()
    @edge_client.options
    def command(url: str, token_file: Path | None) -> None:
        raise edge_client.failed(error)

    monkeypatch.setattr(edge_client, "DEVICE_SETTINGS", tmp_path / "none.toml")
    for name in edge_client.DEVICE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    config, token = tmp_path / "edge.toml", tmp_path / "token"
    config.write_text(f'node = "n"\nhub_url = "ws://hub:1"\nsecurity = "insecure"\ndata_dir = "{tmp_path}"\n')
    token.write_text("t")
    MoveFiles(tmp_path).leave(LeftService(node="n", hub="ws://hub:1", at="2026-11-23T08:00:00Z"))
    given = [{"FILE": str(token), "CONFIG": str(config)}.get(each, each) for each in arguments]
    shown = CliRunner().invoke(command, given)
    assert shown.exit_code == 1 and said in shown.output, shown.output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "status --url http://127.0.0.1:9 --token-file {file}",
            "-file {file}: Permission denied; run it with sudo",
        ),
        ("leave --config {file}", "{file}: Permission denied; run it as root, or as the agent's user"),
        ("status --config {file}", "{file}: Permission denied; run it with sudo, or give --url"),
        ("module-token m --tokens-file {file}", "{file}: Permission denied; run it with sudo"),
        ("module-token m --tokens-file {folder}/new --out {file}", "{file}: Permission denied; run it with sudo"),
    ],
)
def test_a_file_of_another_user_is_one_sentence_with_a_remedy(line: str, said: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        names = {"folder": folder, "file": f"{folder}/file"}
        Path(names["file"]).write_text("of root")
        os.chmod(names["file"], 0o600)
        os.seteuid(NOBODY)
        try:
            done = CliRunner().invoke(build(), ["edge", *line.format(**names).split()])
        finally:
            os.seteuid(0)
    assert done.exit_code in (1, 2) and said.format(**names) in done.output, done.output
