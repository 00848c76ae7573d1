"""`fairlead edge deadletters`: lists, replays and discards the dead letters of a node."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from fairlead_cli.clients import edge_client
from fairlead_cli.parameters import PLACE_HELP as TIME_HELP
from fairlead_cli.parameters import PlaceParameter
from fairlead_cli.text import printable
from fairlead_wire.validation.route_manifest import priority_shown

if TYPE_CHECKING:
    from fairlead_edge.io.client import DeadLetter, EdgeClient

F = TypeVar("F", bound=Callable[..., Any])
PAGE = 1000


def register(root: click.Group) -> None:
    """Add `deadletters` to `edge`."""
    edge = root.commands["edge"]
    assert isinstance(edge, click.Group)
    edge.add_command(deadletters)


@click.group(short_help="List, replay and discard dead letters.")
@edge_client.place_options
@click.pass_context
def deadletters(context: click.Context, /, **place: Any) -> None:
    """List, replay and discard the node's dead letters.

    Dead letters are messages that the hub refused permanently, messages that no module acknowledged within the retries
    of the policy, and refused input, which MQTT 3.1.1 clients sent and the agent could not accept. Each is kept with
    its code and reason until it is replayed or discarded. Refused input is also limited in size and age (`[store]
    refused_share`, `refused_seconds`).

    \b
    fairlead edge deadletters list --since 1h
    fairlead edge deadletters replay --code no_such_topic
    """
    context.obj = edge_client.AgentPlace(**place)


def _at_an_agent(command: F) -> F:
    """Passes the agent's client to the command; the options may stand before or after the subcommand."""

    @functools.wraps(command)
    def placed(*arguments: Any, config: Path | None, url: str | None, token_file: Path | None, **others: Any) -> Any:
        above = click.get_current_context().obj
        place = edge_client.AgentPlace(config or above.config, url or above.url, token_file or above.token_file)
        return command(edge_client.client(*place.found()), *arguments, **others)

    return edge_client.place_options(cast(F, placed))


def _chosen(command: F) -> F:
    """Adds the options that select letters."""
    for option in (
        click.option(
            "--priority", "priorities", multiple=True, type=int, help="Only of this priority; may be repeated."
        ),
        click.option(
            "--topic", "topics", multiple=True, metavar="NS/NAME", help="Only for this topic; may be repeated."
        ),
        click.option("--code", "codes", multiple=True, help="Only with this code; may be repeated."),
        click.option(
            "--endpoint", "endpoints", multiple=True, metavar="NAME", help="Only of this endpoint; may be repeated."
        ),
        click.option(
            "--source",
            "sources",
            multiple=True,
            metavar="SOURCE",
            help="Only from this source or below it; may be repeated.",
        ),
        click.option(
            "--since",
            type=PlaceParameter(),
            metavar="TIME",
            help="Only dead letters from this time or later: a time, or 15m ago.",
        ),
        click.option(
            "--until",
            type=PlaceParameter(),
            metavar="TIME",
            help="Only dead letters from before this time: a time, or 7d ago.",
        ),
    ):
        command = option(command)
    return command


@deadletters.command("list")
@_chosen
@click.option("--after", default=0, show_default=True, help="Only dead letters with a higher number.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@_at_an_agent
def list_(edge: EdgeClient, /, after: int, output: str, **wanted: Any) -> None:
    """List the dead letters that match all options, oldest first; json is one object per line."""
    count = 0
    with _asking():
        for letter in _all(edge, after, **wanted):
            count += 1
            if output == "json":
                import msgspec

                click.echo(json.dumps(msgspec.to_builtins(letter)))
            else:
                place = f"{letter.endpoint} priority {priority_shown(letter.priority)}"
                text = f"{letter.number}  {letter.at}  {place}  {letter.code}: {letter.reason}"
                click.echo(printable.one_line(text))
    if not count and output == "text":
        click.echo("no dead letters")


def _changing(command: F) -> F:
    """Adds the options that select letters to change, and --output."""
    for option in (
        click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True),
        _chosen,
        click.option("--all", "all_", is_flag=True, help="All of them."),
        click.argument("numbers", nargs=-1, type=click.IntRange(0)),
    ):
        command = option(command)
    return command


@deadletters.command("replay")
@_changing
@_at_an_agent
def replay(edge: EdgeClient, /, output: str, **chosen: Any) -> None:
    """Put dead letters back into their queues, with a new time to live.

    They are moved in atomic steps of up to 1,000, so after an interruption the command can be run again. Numbers are
    never reused, so no letter is replayed twice. Messages are sent unchanged; to change one, publish it again.

    \b
    fairlead edge deadletters replay 17 18
    fairlead edge deadletters replay --code no_such_topic
    fairlead edge deadletters replay --all
    """
    with _asking():
        _say(output, "replayed", sum(edge.replay(page) for page in _pages(edge, **chosen)))


@deadletters.command("discard")
@_changing
@click.option("--dry-run", is_flag=True, help="Only count them.")
@_at_an_agent
def discard(edge: EdgeClient, /, output: str, dry_run: bool, **chosen: Any) -> None:
    """Delete dead letters permanently; they count as evicted.

    Check them first with `list` and the same options, or with --dry-run. After an interruption, run it again to delete
    the rest.

    \b
    fairlead edge deadletters discard 17 18
    fairlead edge deadletters discard --endpoint 'edge-1/$mqtt/refused' --until 7d
    fairlead edge deadletters discard --code bad_topic --source /messages/modules/camera --dry-run
    fairlead edge deadletters discard --all -o json
    """
    with _asking():
        if dry_run:
            _say(output, "would be discarded", sum(map(len, _pages(edge, **chosen))), key="wouldBeDiscarded")
        else:
            _say(output, "discarded", sum(edge.discard(page) for page in _pages(edge, **chosen)))


def _say(output: str, done: str, count: int, key: str = "") -> None:
    click.echo(json.dumps({key or done: count}) if output == "json" else f"{count} {done}")


def _pages(edge: EdgeClient, numbers: tuple[int, ...], all_: bool, **wanted: Any) -> list[Sequence[int]]:
    """The numbers of the present letters, so that letters that fail again meanwhile are not replayed in a loop."""
    if bool(numbers) + all_ + any(wanted.values()) != 1:
        raise click.UsageError(
            "name the numbers that `list` shows, choose by --code, --topic, --priority, --endpoint, --source, --since,"
            " --until, or give --all"
        )
    there = numbers or [letter.number for letter in _all(edge, 0, **wanted)]
    return [there[first : first + PAGE] for first in range(0, len(there), PAGE)]


def _all(
    edge: EdgeClient,
    after: int,
    *,
    codes: tuple[str, ...] = (),
    topics: tuple[str, ...] = (),
    priorities: tuple[int, ...] = (),
    endpoints: tuple[str, ...] = (),
    sources: tuple[str, ...] = (),
    since: str | int | None = None,
    until: str | int | None = None,
) -> Iterator[DeadLetter]:
    for name, value in (("--since", since), ("--until", until)):
        if isinstance(value, str):
            raise click.BadParameter(f"a time, not an id: {TIME_HELP}", param_hint=name)
    place: int | None = after
    while place is not None:
        letters, place = edge.dead_letters(after=place, limit=PAGE)
        for letter in letters:
            pairs = (
                (codes, letter.code),
                (topics, letter.topic),
                (priorities, letter.priority),
                (endpoints, letter.endpoint),
            )
            if all(not wanted or value in wanted for wanted, value in pairs) and (
                (not sources or any(_is_below(letter.message.get("source", ""), source) for source in sources))
                and _is_between(letter.at, since, until)
            ):
                yield letter


def _is_below(source: str, wanted: str) -> bool:
    """True if the source is ``wanted`` or below it, ignoring case, like the source of a route."""
    return f"{source}/".lower().startswith(wanted.rstrip("*/").lower() + "/")


def _is_between(at: str, since: str | int | None, until: str | int | None) -> bool:
    if since is None and until is None:
        return True
    moment = PlaceParameter().convert(at, None, None)
    assert isinstance(moment, int)
    return (since is None or moment >= int(since)) and (until is None or moment < int(until))


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    from fairlead_wire.errors import FairleadError

    try:
        yield
    except FairleadError as error:
        raise edge_client.failed(error) from None
