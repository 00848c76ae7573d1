"""`fairlead edge move`: this node goes over to another hub, with what it accepted delivered to the old one."""

from __future__ import annotations

import asyncio
import datetime
import os
import sys
from pathlib import Path
from typing import BinaryIO, Literal

import click

from fairlead_cli.commands.edge.join import config_option, hub_url, say, token_of
from fairlead_cli.parameters import Lifetime

DEADLINE_MIN = datetime.timedelta(seconds=1)
DEADLINE_MAX = datetime.timedelta(days=30)


def register(root: click.Group) -> None:
    """Add `move` to `edge`."""
    edge = root.commands["edge"]
    assert isinstance(edge, click.Group)
    edge.add_command(move)


@click.command("move", short_help="Take this node to another hub or cluster.")
@click.argument("hub", metavar="wss://HUB:PORT", required=False)
@click.option(
    "--token-file",
    type=click.File("rb"),
    metavar="FILE|-",
    help="File with a token of the new hub for this node's name, or - for standard input.",
)
@config_option("The agent's settings, which are changed at the end.")
@click.option(
    "--deadline",
    type=Lifetime(DEADLINE_MIN, DEADLINE_MAX),
    default="10m",
    show_default=True,
    help="How long to deliver to the old hub.",
)
@click.option(
    "--undelivered",
    type=click.Choice(["stay", "take-along"]),
    default="stay",
    show_default=True,
    help="If messages are left at the deadline: stay at the old hub, or take them to the new one.",
)
@click.option("--cancel", is_flag=True, help="Cancel a move that is under way; the node stays at the old hub.")
def move(
    hub: str | None,
    token_file: BinaryIO | None,
    config: Path,
    deadline: datetime.timedelta,
    undelivered: Literal["stay", "take-along"],
    cancel: bool,
) -> None:
    """Join another hub, deliver to the old one what was accepted, and switch; the agent goes on all the time.

    The node keeps its name. Until the switch nothing changes for the old hub; for the last moment before it publishing
    is answered with 503 and the code moving, and after it with 503 until the new hub has sent its routes. The same
    command again, after a broken connection or a crash, goes on where it was: the node is at the old hub or at the new
    one, never at both. Once it is at the new one, the same command does nothing and ends with 0.

    \b
    fairlead edge move wss://hub.other.example.com:10000 --token-file token
    fairlead edge move wss://hub.other.example.com:10000 --token-file - --deadline 1m --undelivered take-along
    fairlead edge move --cancel

    Exit codes: 0 the node belongs to the new hub; 1 it stays at the old one, and why; 2 wrong use.
    """
    from fairlead_edge.io.moving import move as moves
    from fairlead_wire.errors import FairleadError

    try:
        if cancel:
            click.echo(f"the move is given up; the node stays at {moves.cancel(config, os.environ)}")
            return
        if hub is None or token_file is None:
            raise click.UsageError("give the new hub's URL and --token-file, or --cancel")
        url, token = hub_url(hub), token_of(token_file)
        say("hub", url)
        wanted = moves.MoveOptions(
            url=url, token=token, config=config, deadline_seconds=deadline.total_seconds(), undelivered=undelivered
        )
        done = asyncio.run(moves.move(wanted, os.environ, say))
    except FairleadError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        click.echo("interrupted; the move goes on, the same command shows it, --cancel ends it", err=True)
        sys.exit(1)
    if done.since == done.until:
        click.echo(f"{done.node} is at {done.until} already; nothing was done")
        return
    click.echo(
        f"{done.node} moved from {done.since} to {done.until}; in the old cluster, revoke it when all is well:"
        f" fairlead node revoke {done.node}"
    )
