"""`fairlead edge deadletters`: what a node's agent set aside, why, and back into its queue."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairlead_cli.clients import edge_client
from fairlead_cli.text import printable

if TYPE_CHECKING:
    from fairlead_edge.io.client import DeadLetter, EdgeClient

F = TypeVar("F", bound=Callable[..., Any])
PAGE = 1000


def register(root: click.Group) -> None:
    """Add `deadletters` to `edge`."""
    edge = root.commands["edge"]
    assert isinstance(edge, click.Group)
    edge.add_command(deadletters)


@click.group(short_help="Messages that were set aside: list, replay.")
@edge_client.options
@click.pass_context
def deadletters(context: click.Context, url: str, token_file: Path | None) -> None:
    """Messages that the hub refused for good, or that no module acknowledged as often as the policy allows.

    Nothing is dropped: each lies there with its code and reason until it is replayed.
    """
    context.obj = edge_client.client(url, token_file)


def _chosen(command: F) -> F:
    """Which letters."""
    for option in (
        click.option("--priority", "priorities", multiple=True, type=int, help="Of this priority; may be repeated."),
        click.option("--topic", "topics", multiple=True, metavar="NS/NAME", help="For this topic; may be repeated."),
        click.option("--code", "codes", multiple=True, help="With this code; may be repeated."),
    ):
        command = option(command)
    return command


@deadletters.command("list")
@_chosen
@click.option("--after", default=0, show_default=True, help="Only those with a higher number.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_obj
def list_(edge: EdgeClient, /, after: int, output: str, **wanted: Any) -> None:
    """All of them, oldest first; json is one object a line."""
    count = 0
    with _asking():
        for letter in _all(edge, after, **wanted):
            count += 1
            if output == "json":
                import msgspec

                click.echo(json.dumps(msgspec.to_builtins(letter)))
            else:
                place = f"{letter.endpoint} priority {letter.priority}"
                text = f"{letter.number}  {letter.at}  {place}  {letter.code}: {letter.reason}"
                click.echo(printable.one_line(text))
    if not count and output == "text":
        click.echo("there are none")


@deadletters.command("replay")
@click.argument("numbers", nargs=-1, type=click.IntRange(0))
@click.option("--all", "all_", is_flag=True, help="Every one.")
@_chosen
@click.pass_obj
def replay(edge: EdgeClient, /, numbers: tuple[int, ...], all_: bool, **wanted: Any) -> None:
    """Put dead letters back into their queues, with their time to live anew.

    Up to 1,000 leave the dead letters and enter their queues in one step, or none of them: killed at any moment, run it
    again. A number is never given twice, so that no letter is replayed twice. Messages go as they are; one that has to
    be changed is published anew.

    \b
    fairlead edge deadletters replay 17 18
    fairlead edge deadletters replay --code no_such_topic
    fairlead edge deadletters replay --all
    """
    if bool(numbers) + all_ + any(wanted.values()) != 1:
        raise click.UsageError(
            "name the numbers that `list` shows, choose by --code, --topic, --priority, or give --all"
        )
    with _asking():
        # Those that are there now: what fails again meanwhile is not replayed in a circle.
        there = numbers or [letter.number for letter in _all(edge, 0, **wanted)]
        pages = (there[first : first + PAGE] for first in range(0, len(there), PAGE))
        click.echo(f"{sum(edge.replay(page) for page in pages)} replayed")


def _all(
    edge: EdgeClient,
    after: int,
    codes: tuple[str, ...] = (),
    topics: tuple[str, ...] = (),
    priorities: tuple[int, ...] = (),
) -> Iterator[DeadLetter]:
    place: int | None = after
    while place is not None:
        letters, place = edge.dead_letters(after=place, limit=PAGE)
        for letter in letters:
            pairs = ((codes, letter.code), (topics, letter.topic), (priorities, letter.priority))
            if all(not wanted or value in wanted for wanted, value in pairs):
                yield letter


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    from fairlead_wire.errors import FairleadError

    try:
        yield
    except FairleadError as error:
        raise click.ClickException(str(error)) from None
