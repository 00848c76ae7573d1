"""Groups that do something without a command."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from fairlead_cli.default_command import DefaultCommand


@click.group(cls=DefaultCommand)
@click.option("--url", default="")
@click.pass_context
def group(context: click.Context, url: str) -> None:
    """Without a command: list."""
    context.obj = url


@group.command("list")
@click.option("-A", "everything", is_flag=True)
@click.pass_context
def list_(context: click.Context, everything: bool) -> None:
    click.echo(f"list {context.obj} {everything}")


@group.command()
def other() -> None:
    click.echo("other")


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ([], "list  False"),
        (["-A"], "list  True"),
        (["--url", "u"], "list u False"),
        (["--url", "u", "-A"], "list u True"),
        (["list", "-A"], "list  True"),
        (["other"], "other"),
    ],
)
def test_the_default_is_run(line: list[str], printed: str) -> None:
    assert CliRunner().invoke(group, line).output.strip() == printed


@pytest.mark.parametrize(
    ("line", "words"), [(["--help"], "Commands:"), (["nonsense"], "No such command"), (["--url"], "requires")]
)
def test_all_else_is_as_usual(line: list[str], words: str) -> None:
    assert words in CliRunner().invoke(group, line).output
