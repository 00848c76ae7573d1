"""Rows and documents in every form."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import islice
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
    empty = run(rows=[])
    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", "no nodes here\n")


def test_colour_only_where_it_is_wanted() -> None:
    assert "\x1b" not in run().stdout
    assert "\x1b[32mup\x1b[0m" in run("--color", "always").stdout


def test_following(capsys: pytest.CaptureFixture[str]) -> None:
    Printer().follow(VIEW, [ROWS[1:], [], ROWS[:1]])
    assert capsys.readouterr().out == "NODE      STATE\nedge-22   down\nedge-1    up\n"
    Printer(printer.Form("json")).follow(VIEW, [ROWS[:1]])
    assert json.loads(capsys.readouterr().out) == ROWS[0]
    Printer(printer.Form("yaml")).follow(VIEW, [ROWS])
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == ROWS


def test_following_ends_when_it_is_interrupted() -> None:
    def pages() -> Iterator[list[dict[str, Any]]]:
        yield ROWS
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        Printer().follow(VIEW, pages())
    assert ended.value.code == 0


# ---- what -o takes and refuses ----


def test_names_and_templates() -> None:
    assert printer.FormType().convert("wide", None, None) == printer.Form("wide")
    form = printer.FormType().convert("jsonpath={.a}", None, None)
    assert form.template is not None and form.template.applied({"a": 1}) == "1"
    with pytest.raises(click.BadParameter, match="'wide' is none of text, json, yaml, jsonpath=TEMPLATE"):
        printer.FormType(printer.DOCUMENTS).convert("wide", None, None)
    with pytest.raises(click.BadParameter, match=r"not closed; for example jsonpath='\{\.items"):
        printer.FormType().convert("jsonpath={.a", None, None)


def test_names_are_completed() -> None:
    option = click.Option(["-o"], type=printer.FormType())
    items = option.shell_complete(click.Context(click.Command("x")), "j")
    assert [item.value for item in items] == ["json", "jsonpath="]


# ---- asked again and again; only what changed is given ----


def test_only_changes() -> None:
    """All at first; then rows that are new or differ; what went is not shown."""
    answers = iter([[("a", 1), ("b", 1)], [("a", 1), ("b", 2)], [("b", 2)], [("a", 1), ("b", 2)]])
    pages = printer.changed_rows(lambda: next(answers), lambda row: row[0], pause=lambda _: None)
    assert list(islice(pages, 4)) == [[("a", 1), ("b", 1)], [("b", 2)], [], [("a", 1)]]


def test_an_outage_is_waited_for() -> None:
    said: list[str] = []
    answers = iter([[1], None, None, [2]])

    def ask() -> list[int]:
        answer = next(answers)
        if answer is None:
            raise click.ClickException("the hub does not answer")
        return answer

    pages = printer.changed_rows(ask, lambda row: row, pause=lambda _: None, complain=said.append)
    assert list(islice(pages, 4)) == [[1], [], [], [2]] and said == ["the hub does not answer"]

    def never() -> list[int]:
        raise click.ClickException("no")

    with pytest.raises(click.ClickException):
        next(printer.changed_rows(never, lambda row: row))


# ---- whether standard output is still read ----


def test_a_pipe_without_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        assert printer.has_reader()
        os.close(reading)
        assert not printer.has_reader()


def test_what_cannot_be_watched_is_taken_for_read() -> None:
    """Tests and notebooks replace standard output by an object without a file."""
    assert printer.has_reader()
