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


def test_a_name_is_for_the_default() -> None:
    """Where it takes one, and unless it resembles a command."""

    @click.group(cls=DefaultCommand)
    def routes() -> None:
        pass

    @routes.command("list")
    @click.argument("name", required=False)
    @click.option("--by-node", is_flag=True)
    def of(name: str | None, by_node: bool) -> None:
        click.echo(f"list {name} {by_node}")

    @routes.command()
    def check() -> None:
        click.echo("check")

    def run(*line: str) -> str:
        return CliRunner().invoke(routes, line).output.strip()

    assert run("mine", "--by-node") == run("--by-node", "mine") == "list mine True"
    assert run("check") == "check" and run("list", "check") == "list check False"
    assert run("chekc").endswith("there is no command chekc; did you mean routes check?")


@pytest.mark.parametrize(
    ("line", "words"), [(["--help"], "Commands:"), (["nonsense"], "No such command"), (["--url"], "requires")]
)
def test_all_else_is_as_usual(line: list[str], words: str) -> None:
    assert words in CliRunner().invoke(group, line).output
