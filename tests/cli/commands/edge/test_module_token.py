"""`fairlead edge module-token`, and a real agent that reads the file while it runs."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.edges.edge_line import CountingHub, EdgeProgram
from tests.support.pages import ROOT
from tests.support.processes import wait_until

from fairlead_cli.clients import edge_client
from fairlead_cli.commands.edge.module_token import PREFIX
from fairlead_cli.main import build
from fairlead_edge.io.client import EdgeClient, Message
from fairlead_edge.io.module_tokens_file import ModuleTokensFile
from fairlead_wire.errors import Permanent

ROUTES = {
    "schemaVersion": "1.1.0",
    "routes": {
        "in": 'FROM /messages/modules/pump/* INTO BrokeredEndpoint("/modules/filter/inputs/in")',
        "up": "FROM /messages/* INTO $upstream",
    },
    "storeAndForwardConfiguration": {"timeToLiveSecs": 7200},
}
READ_SECONDS = 30.0
SOURCE = "/messages/modules/pump/outputs/o"


def make(path: Path, module: str, *more: str) -> Result:
    return CliRunner().invoke(build(), ["edge", "module-token", module, "--tokens-file", str(path), *more])


def token_of(made: Result) -> str:
    assert made.exit_code == 0, made.output
    return made.stdout.strip()


def test_each_step_of_the_page_works_when_it_is_reached(tmp_path: Path) -> None:
    """The command that creates the tokens file comes before settings that name it, which stop an agent without it."""
    page = (ROOT / "docs" / "howto" / "give-modules-names.md").read_text().replace("/etc/fairlead/modules", "modules")
    steps = re.findall(r"sudo fairlead (edge module-token .*) --out \S+|^tokens_file = (.*)", page, re.MULTILINE)
    assert [bool(command) for command, _ in steps] == [True, False, True]
    for command, file in steps:
        if command:
            made = CliRunner().invoke(build(), command.replace("modules", str(tmp_path / "modules")).split())
            assert made.exit_code == 0, made.output
        else:
            assert ModuleTokensFile(tmp_path / file.strip('"')).read_tokens().count == 1


@pytest.mark.process
def test_agent_knows_a_new_module_within_seconds_and_nothing_leaks(tmp_path: Path) -> None:
    """Given, used, replaced, taken away, without a restart; neither file nor log has a token."""
    path = tmp_path / "modules"
    pump = token_of(make(path, "pump"))
    settings = f'[modules]\ntokens_file = "{path}"\n'
    with CountingHub(routes=ROUTES) as hub, EdgeProgram(tmp_path, hub.port, settings=settings) as edge:
        wait_until("routes arrive", lambda: edge.status()["routes"], seconds=READ_SECONDS)
        EdgeClient(edge.url, token=pump).publish([Message(body=1)])
        other = EdgeClient(edge.url)
        with pytest.raises(Permanent, match="module pump has its own token"):
            other.publish([Message(source=SOURCE, body=2)])
        with pytest.raises(Permanent, match="module filter need that module's token"):
            other.take("filter", "in")

        filter_token = token_of(make(path, "filter"))
        filtering = EdgeClient(edge.url, token=filter_token, patience_seconds=0)

        def taken() -> str:
            try:
                return "".join(each.source for each in filtering.take("filter", "in"))
            except Permanent as error:
                assert error.code == "unauthorized"
                return ""

        assert wait_until("the agent knows filter", taken, seconds=READ_SECONDS) == "/messages/modules/pump"
        hub.wait_for(1)
        [up] = hub.messages()
        assert (up.source, up.system_properties["connectionModuleId"]) == ("/messages/modules/pump", "pump")

        both = token_of(make(path, "pump", "--keep-old"))
        replaced = token_of(make(path, "pump"))

        def ended() -> bool:
            try:
                EdgeClient(edge.url, token=pump, patience_seconds=0).publish([Message(body=3)])
            except Permanent as error:
                return error.code == "unauthorized"
            return False

        wait_until("the old token has ended", ended, seconds=READ_SECONDS)
        EdgeClient(edge.url, token=replaced).publish([Message(source=SOURCE, body=4)])
    told = path.read_text() + (tmp_path / "edge.log").read_text()
    assert not [each for each in (pump, filter_token, both, replaced) if each in told]
    assert "module_tokens_loaded" in told


def test_file_is_the_owners_and_has_hashes_alone(tmp_path: Path) -> None:
    path = tmp_path / "modules"
    first = token_of(make(path, "filter"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert re.fullmatch(r"filter [0-9a-f]{64}\n", path.read_text())
    make(path, "pump")
    make(path, "filter", "--keep-old")
    assert [each.split()[0] for each in path.read_text().splitlines()] == ["filter", "pump", "filter"]
    make(path, "filter")
    assert [each.split()[0] for each in path.read_text().splitlines()] == ["pump", "filter"]
    assert first not in path.read_text()


def test_out_overwrites_only_a_token_of_the_same_module(tmp_path: Path) -> None:
    """Not a settings file, nor the token of another module; --force does."""
    path, out = tmp_path / "modules", tmp_path / "filter"
    assert make(path, "filter", "--out", str(out)).exit_code == 0
    for old in ("filter", "Filter"):
        assert make(path, old, "--out", str(out)).exit_code == 0
    settings = tmp_path / "edge.toml"
    settings.write_text('node = "n"\n')
    before = path.read_text()
    for module, file in (("filter", settings), ("pump", out), ("filter", path)):
        content = file.read_text()
        refused = make(path, module, "--out", str(file))
        assert refused.exit_code == 1 and "exists and does not hold a current token" in refused.stderr
        assert (file.read_text(), path.read_text()) == (content, before)
    assert make(path, "pump", "--out", str(settings), "--force").exit_code == 0
    assert settings.read_text().startswith(PREFIX)
    assert make(path, "pump", "--out", str(path), "--force").exit_code == 2


def test_a_replaced_token_is_said(tmp_path: Path) -> None:
    """Also of a name that differs in case; with --keep-old two spellings are refused, as the agent would."""
    path = tmp_path / "modules"
    assert "replaces" not in make(path, "boiler").stderr
    assert "replaces" not in make(path, "boiler", "--keep-old").stderr
    refused = make(path, "Boiler", "--keep-old")
    assert refused.exit_code == 1 and "name the module boiler" in refused.stderr
    assert "replaces the token of boiler; the old one is no longer valid\n" in make(path, "Boiler").stderr


def test_what_cannot_be_a_module_or_a_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "modules"
    path.write_text("# ours\n")
    assert make(path, "two words").exit_code == 1
    assert path.read_text() == "# ours\n"
    path.write_text("no tokens file")
    bad = make(path, "filter")
    assert bad.exit_code == 1 and "line 1" in bad.output
    path.write_text(f"filter {'0' * 64}\nno tokens file")
    assert "line 2" in make(path, "filter").output, "as the agent counts, with the line that is replaced"
    none = make(tmp_path / "none" / "modules", "filter")
    assert none.exit_code == 1 and f"create the folder {tmp_path / 'none'} first" in none.output


def test_a_file_that_root_writes_belongs_to_the_agents_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To its owner where there is one already, else to the owner of data_dir; the token's own file stays root's."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    data, path, out = tmp_path / "data", tmp_path / "modules", tmp_path / "token"
    data.mkdir()
    os.chown(data, 54_321, 54_322)
    config = tmp_path / "edge.toml"
    config.write_text(f'node = "n"\nhub_url = "ws://hub:1"\nsecurity = "insecure"\ndata_dir = "{data}"\n')
    monkeypatch.setattr(edge_client, "DEVICE_SETTINGS", config)
    made = make(path, "filter", "--out", str(out))
    assert made.exit_code == 0 and made.stdout == "" and PREFIX in out.read_text()
    assert [(os.stat(each).st_uid, os.stat(each).st_mode & 0o777) for each in (path, out)] == [
        (54_321, 0o600), (0, 0o600)
    ]  # fmt: skip
    os.chown(path, 54_400, 54_400)
    token_of(make(path, "pump"))
    assert os.stat(path).st_uid == 54_400
