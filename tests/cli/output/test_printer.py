"""Rows and documents in every form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.tables import OutputColumn, TableView

ROWS: list[dict[str, Any]] = [
    {"name": "edge-1", "state": "up", "agent": "0.1"},
    {"name": "edge-22", "state": "down", "agent": None},
]
VIEW = TableView(
    kind="node",
    name=lambda row: str(row["name"]),
    columns=(
        OutputColumn("NODE", lambda row: row["name"]),
        OutputColumn("STATE", lambda row: row["state"], style=lambda row: "good" if row["state"] == "up" else "bad"),
        OutputColumn("AGENT", lambda row: row["agent"], wide=True),
    ),
)


def run(*arguments: str, rows: list[dict[str, Any]] = ROWS) -> Result:
    @click.command()
    @printer.options()
    def command(shown: Printer) -> None:
        shown.items(VIEW, rows, none="no nodes here")

    return CliRunner().invoke(command, arguments)


def test_tables() -> None:
    """Aligned; wide has more columns; without a head for programs that read columns."""
    assert run().stdout == "NODE      STATE\nedge-1    up\nedge-22   down\n"
    assert run("-o", "wide", "--no-headers").stdout == "edge-1    up     0.1\nedge-22   down   <none>\n"


def test_names() -> None:
    """As `kubectl get -o name`."""
    assert run("-o", "name").stdout == "node/edge-1\nnode/edge-22\n"


def test_documents() -> None:
    """A List with `items`, the same in JSON and YAML; also where there is nothing."""
    found = json.loads(run("-o", "json").stdout)
    assert found == {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": ROWS}
    assert yaml.safe_load(run("-o", "yaml").stdout) == found
    assert run("-o", "jsonpath={.items[*].name}").stdout == "edge-1 edge-22"
    empty = run("-o", "json", rows=[])
    assert json.loads(empty.stdout)["items"] == [] and empty.stderr == "no nodes here\n"


def test_nothing_is_said_beside_the_output() -> None:
    """An empty table has no head."""
    empty = run(rows=[])
    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", "no nodes here\n")


def test_colour_only_where_it_is_wanted() -> None:
    """A pipe gets none unless it is asked for."""
    assert "\x1b" not in run().stdout
    assert "\x1b[32mup\x1b[0m" in run("--color", "always").stdout


def test_following(capsys: pytest.CaptureFixture[str]) -> None:
    """One head; lines as they come; an empty page prints nothing."""
    Printer().follow(VIEW, [ROWS[1:], [], ROWS[:1]])
    assert capsys.readouterr().out == "NODE      STATE\nedge-22   down\nedge-1    up\n"
    Printer(printer.Form("json")).follow(VIEW, [ROWS[:1]])
    assert json.loads(capsys.readouterr().out) == ROWS[0]
    Printer(printer.Form("yaml")).follow(VIEW, [ROWS])
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == ROWS


def test_following_ends_when_it_is_interrupted() -> None:
    """With exit code 0: it is the only way to end it."""

    def pages() -> Iterator[list[dict[str, Any]]]:
        yield ROWS
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        Printer().follow(VIEW, pages())
    assert ended.value.code == 0
