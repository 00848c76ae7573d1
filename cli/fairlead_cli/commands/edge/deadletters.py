"""`fairlead edge deadletters`: what a node's agent set aside, why, and back into its queue."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead_cli import edge_account

if TYPE_CHECKING:
    from fairlead_edge.io.client import DeadLetter, EdgeClient

PAGE = 1000


def register(root: click.Group) -> None:
    """Add `deadletters` to `edge`."""
    edge = root.commands["edge"]
    assert isinstance(edge, click.Group)
    edge.add_command(deadletters)


@click.group(short_help="Messages that were set aside: list, replay.")
@edge_account.options
@click.pass_context
def deadletters(context: click.Context, url: str, token_file: Path | None) -> None:
    """Messages that the hub refused for good, or that no module acknowledged as often as the policy allows.

    Nothing is dropped: each lies there with its code and reason until it is replayed.
    """
    context.obj = edge_account.client(url, token_file)


@deadletters.command("list")
@click.option("--after", default=0, show_default=True, help="Only those with a higher number.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_obj
def list_(edge: EdgeClient, after: int, output: str) -> None:
    """All of them, oldest first; json is one object a line."""
    count = 0
    with _asking():
        for letter in _all(edge, after):
            count += 1
            if output == "json":
                import msgspec

                click.echo(json.dumps(msgspec.to_builtins(letter)))
            else:
                place = f"{letter.endpoint} priority {letter.priority}"
                click.echo(f"{letter.number}  {letter.at}  {place}  {letter.code}: {letter.reason}")
    if not count and output == "text":
        click.echo("there are none")


@deadletters.command("replay")
@click.argument("numbers", nargs=-1, type=click.IntRange(0))
@click.option("--all", "all_", is_flag=True, help="Every one.")
@click.pass_obj
def replay(edge: EdgeClient, numbers: tuple[int, ...], all_: bool) -> None:
    """Put dead letters back into their queues, with their time to live anew.

    \b
    fairlead edge deadletters replay 17 18
    fairlead edge deadletters replay --all
    """
    if bool(numbers) == all_:
        raise click.UsageError("name the numbers that `list` shows, or give --all")
    with _asking():
        if not all_:
            click.echo(f"{edge.replay(numbers)} replayed")
            return
        # Those that are there now: what fails again meanwhile is not replayed in a circle.
        there = [letter.number for letter in _all(edge, 0)]
        pages = (there[first : first + PAGE] for first in range(0, len(there), PAGE))
        click.echo(f"{sum(edge.replay(page) for page in pages)} replayed")


def _all(edge: EdgeClient, after: int) -> Iterator[DeadLetter]:
    place: int | None = after
    while place is not None:
        letters, place = edge.dead_letters(after=place, limit=PAGE)
        yield from letters


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    from fairlead_wire.errors import FairleadError

    try:
        yield
    except FairleadError as error:
        raise click.ClickException(str(error)) from None
