"""`fairlead edge join` as people run it: a program of its own, its exit codes, and what it prints."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.edges.edge_agent import PROGRAM
from tests.support.joining.join_hub import JoinHub
from tests.support.kills import join_steps
from tests.support.processes import wait_until

from fairlead_cli.main import build
from fairlead_edge.io.identity.identity_files import IdentityFiles

ROOT = Path(__file__).parents[4]
URL = "wss://hub.example:10000"


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """With the token on standard input."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_")}
    command = [str(PROGRAM), "edge", "join", *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=100, env=environ)


@pytest.mark.process
async def test_joined_refused_and_joined_twice(tmp_path: Path) -> None:
    """0, 1 with the hub's code, 1 with a sentence; the token is nowhere in what is printed."""
    async with JoinHub(tmp_path / "hub") as hub:
        token, config = hub.token().text, tmp_path / "device" / "edge.toml"
        arguments = (hub.url, "--token-file", "-", "--config", str(config))
        hub.answers = [("refuse", "token_used", None), ("admit",)]
        config.parent.mkdir()
        refused = await asyncio.to_thread(run, *arguments, given=f"{token}\n")
        said = "Error: token_used: so it is. If this device joined before"
        assert refused.returncode == 1 and refused.stderr.startswith(said), refused.stderr
        # As `fairlead token create` prints it, and as an editor of another system keeps it.
        given = f"\ufeff{token}\r\necho {token} | sudo fairlead edge join {hub.url} --token-file -\r\n"
        done = await asyncio.to_thread(run, *arguments, given=given)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"hub               {hub.url}\nclock here        20")
        last = done.stdout.splitlines()[-1]
        assert last.startswith("joined as shop-17, until 20") and f"fairlead edge run --config {config}" in last
        again = await asyncio.to_thread(run, *arguments, given=f"{token}\n")
        assert again.returncode == 1 and "already joined as shop-17" in again.stderr
    printed = "".join(each.stdout + each.stderr for each in (refused, done, again))
    assert token not in printed and token.split("-")[2] not in printed


@pytest.mark.process
@pytest.mark.verify
async def test_killed_at_each_step_the_same_command_ends_joined(tmp_path: Path) -> None:
    """SIGKILL around each call that changes the disk, and around each question to the hub: one certificate."""
    async with JoinHub(tmp_path / "hub") as hub:
        place = str(tmp_path / "devices")
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", join_steps.__name__, hub.url, hub.token().text, place),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            limit=1 << 20,
        )
        said, _ = await running.communicate()
    assert running.returncode == 0
    lives = [json.loads(line) for line in said.splitlines()]
    assert len(lives) > 30 and not lives[-1]["killed"]
    for each in lives:
        assert each["ended"] == 0 or "already joined as shop-17" in each["error"], each
        assert len(each["left"]) == 4 and each["settings"].count('node = "shop-17"') == 1, each
    chains = {each["chain"] for each in lives}
    assert chains == {chain.decode() for chain in hub.issued.values()} and len(chains) == len(lives)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([URL], "Missing option '--token-file'"),
        ([f"{URL}/foo", "--token-file", "-"], f"a hub's URL has no path: {URL}"),
        ([URL, "--token-file", "no-such-file"], "No such file or directory"),
        ([URL, "--token-file", "-", "--node", "Shop 17"], "is not a join token"),
        ([URL, "fl1-token", "--token-file", "-"], "unexpected extra argument"),
    ],
)
def test_wrong_use_is_exit_code_2(arguments: list[str], sentence: str) -> None:
    """Each with what to do instead; the text of a token is not repeated."""
    done = CliRunner().invoke(build(), ["edge", "join", *arguments], input="fl1-not-a-token")
    assert done.exit_code == 2 and sentence in done.stderr, done.stderr
    assert "not-a-token" not in done.stderr


@pytest.mark.process
def test_without_a_standard_input_it_is_wrong_use() -> None:
    command = f"exec {PROGRAM} edge join {URL} --token-file - <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=100)
    assert done.returncode == 2 and "is not a join token" in done.stderr, done.stderr


def test_a_mistyped_settings_file_creates_nothing(tmp_path: Path) -> None:
    """Nor does it use up a token: nothing is sent."""
    token, config = f"fl1-{'a' * 10}-{'b' * 26}-{'0' * 64}", tmp_path / "no" / "such" / "edge.toml"
    done = CliRunner().invoke(build(), ["edge", "join", URL, "--token-file", "-", "--config", str(config)], input=token)
    assert done.exit_code == 1 and f"folder {config.parent} does not exist; correct the path" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_name_that_no_node_has_is_wrong_use() -> None:
    token = f"fl1-{'a' * 10}-{'b' * 26}-{'0' * 64}"
    done = CliRunner().invoke(build(), ["edge", "join", URL, "--token-file", "-", "--node", "Shop"], input=token)
    assert done.exit_code == 2 and "'Shop' cannot be the name of a Node" in done.stderr


@pytest.mark.process
async def test_interrupted_it_says_how_to_go_on(tmp_path: Path) -> None:
    async with JoinHub(tmp_path / "hub") as hub:
        hub.answers = [("refuse", "starting", 60.0)] * 100
        (tmp_path / "token").write_text(hub.token().text)
        config = tmp_path / "edge.toml"
        arguments = [hub.url, "--token-file", str(tmp_path / "token"), "--config", str(config)]
        command = [str(PROGRAM), "edge", "join", *arguments]
        running = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
        await asyncio.to_thread(wait_until, "it has asked", lambda: bool(hub.joins), seconds=60)
        running.send_signal(signal.SIGINT)
        _, said = await running.communicate()
    assert running.returncode == 1 and said == b"interrupted; run the same command again to continue\n"
    assert IdentityFiles.of(tmp_path / "edge-data").pending() is not None and not config.exists()


# ---- what `fairlead edge join` and `fairlead edge move` refuse alike, before anything is read or asked ----


HUB_URL = "wss://hub.example.com:10000"
COMMANDS = pytest.mark.parametrize("command", ["join", "move"])


@COMMANDS
@pytest.mark.parametrize(
    ("hub", "sentence"),
    [
        ("fl1-aaaaaaaaaa-bbb", "that is a token: give the hub's URL here"),
        (HUB_URL, "one is like fl1-<10 letters and digits>"),
        ("ws://hub:10000", "ws:// is not encrypted: join with wss://"),
        ("wss://hub", "name the port, for example wss://hub:10000"),
        ("wss://hub:port", "is not a URL; one is like"),
        ("https://hub:1", "is not the URL of a hub"),
        ("wss://my hub:1", "is not the URL of a hub"),
        ("wss://me:secret@hub:1", "is not the URL of a hub"),
    ],
)
def test_wrong_arguments_are_exit_code_2(command: str, hub: str, sentence: str) -> None:
    """Each with what to do instead; the text of a token is not repeated."""
    done = CliRunner().invoke(build(), ["edge", command, hub, "--token-file", "-"], input="fl1-not-a-token")
    assert done.exit_code == 2 and sentence in done.stderr, done.stderr
    assert "not-a-token" not in done.stderr


@COMMANDS
def test_a_token_of_another_encoding_is_wrong_use(command: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("fl1-aaaaaaaaaa", encoding="utf-16")
    done = CliRunner().invoke(build(), ["edge", command, HUB_URL, "--token-file", str(file)])
    assert done.exit_code == 2 and "--token-file: cannot be read as text" in done.stderr
