"""People paste addresses with keys and passwords in them; no error of any program shows these, at any key or option.

The keys and options are found, not listed: those that come are tried as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import click
import pytest
from click.testing import CliRunner

from fairlead_cli.main import build
from fairlead_edge.settings import EdgeSettings as EdgeSettings
from fairlead_hub.settings import HubSettings as HubSettings
from fairlead_ingest.settings import IngestSettings as IngestSettings
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_wire.validation import mistakes
from fairlead_wire.validation import model as pydantic_model
from fairlead_wire.validation.reader import STRUCTS

MODELS: dict[str, Any] = {
    "hub": HubSettings,
    "edge": EdgeSettings,
    "messaging": MessagingSettings,
    "ingest": IngestSettings,
}
ADDRESSES = (
    "s3://AKIAX:hunter2@bucket/t",
    "s3://AKIAX:a/hunter2@bucket/t",
    "s3://bucket:hunter2/t",
    "s3://bucket:hunter2",
    "https://host:hunter2/",
    "http://127.0.0.1:hunter2/",
    "http://me:hunter2@127.0.0.1:1",
    "wss://host:hunter2",
    "wss://me:hunter2@host:1",
    "sc://host:hunter2",
    "sc://host:1/;password=hunter2",
    "spark://host:hunter2",
    "postgresql+psycopg://host:hunter2/db",
    "me:hunter2@host:1",
)


def _keys(model: Any, reader: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, annotation, *_ in reader.fields(model):
        inner = [each for each, _ in mistakes.members(annotation)]
        deeper = [each for member in inner for each in (member, *get_args(member)) if reader.is_model(each)]
        for each in deeper:
            yield from _keys(each, reader, (*path, name))
        if not deeper:
            yield (*path, name)


@pytest.mark.slow
@pytest.mark.parametrize("room", MODELS)
def test_no_setting_shows_it(room: str) -> None:
    model = MODELS[room]
    reader: Any = STRUCTS if STRUCTS.is_model(model) else pydantic_model.MODELS
    keys = list(_keys(model, reader))
    assert len(keys) > 20
    for address in ADDRESSES[::3]:
        for data in ({key[0]: _nested(key[1:], address)} for key in keys):
            said = "\n".join(map(str, reader.find({"security": "insecure", **data}, model)))
            assert "hunter2" not in said, (data, said)


def _nested(key: tuple[str, ...], value: Any) -> Any:
    for name in reversed(key):
        value = {name: value}
    return value


ASKED = {
    "status": "--hub",
    "explain": "--hub",
    "console": "--hub",
    "token create": "--hub",
    "edge join": "hub",
    "edge move": "hub",
    "edge status": "--url",
    "edge receipt m": "--url",
    "diff": "--edge",
    "tail a/b": "--url",
    "top topics": "--url",
    "ingest jobs": "--url",
    "ingest check contract.json a/b": "--url",
    "topics list": "--url",
    "messaging backup --out file": "--url",
    "send edge-1 camera/in": "--hub",
    "bundle": "--hub",
    "bench nodes": "--hub",
    "doctor --cluster": "--hub",
    "topics subscriptions put a/b n": "url",
}


@pytest.mark.parametrize("command", ASKED)
@pytest.mark.parametrize("address", ADDRESSES[::2])
def test_no_command_shows_it(command: str, address: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    (tmp_path / "contract.json").write_text("{}")
    option = ASKED[command]
    words = command.split()
    given = [*words, option, address] if option.startswith("-") else [*words, address]
    result = CliRunner().invoke(build(), given)
    assert result.exit_code in (1, 2), result.output
    assert "hunter2" not in result.output, result.output


def test_every_command_that_takes_an_address_is_tried() -> None:
    """A new one has to be added above; commands of one group that share their options count as one."""
    found = {
        " ".join(path) for path, each in _leaves(build(), ()) if {"url", "hub"} & {str(p.name) for p in each.params}
    }
    tried = {" ".join(command.split()[:2]) for command in ASKED}
    assert {each for each in found if not any(each.startswith(one.partition(" ")[0]) for one in tried)} == set()


def _leaves(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from _leaves(inner, (*path, name))
