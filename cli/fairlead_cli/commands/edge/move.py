"""`fairlead edge move`: moves this node to another hub after it has delivered its messages to the old one."""

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


@click.command("move", short_help="Move this node to another hub or cluster.")
@click.argument("hub", metavar="wss://HUB:PORT", required=False)
@click.option(
    "--token-file",
    type=click.File("rb"),
    metavar="FILE|-",
    help="File with the new hub's token for this node, or - for standard input.",
)
@config_option("The agent's settings, which are updated at the end.")
@click.option(
    "--deadline",
    type=Lifetime(DEADLINE_MIN, DEADLINE_MAX),
    default="10m",
    show_default=True,
    help="How long to keep delivering to the old hub.",
)
@click.option(
    "--undelivered",
    type=click.Choice(["stay", "take-along"]),
    default="stay",
    show_default=True,
    help="If messages are left at the deadline: stay at the old hub, or take them to the new one.",
)
@click.option("--cancel", is_flag=True, help="Cancel a move in progress; the node stays at the old hub.")
def move(
    hub: str | None,
    token_file: BinaryIO | None,
    config: Path,
    deadline: datetime.timedelta,
    undelivered: Literal["stay", "take-along"],
    cancel: bool,
) -> None:
    """Join another hub, deliver accepted messages to the old one, and switch; the agent keeps running.

    The node keeps its name. Until the switch nothing changes for the old hub. Immediately before it, publishing is
    refused with 503 and code `moving`; after it, with 503 until the new hub has sent its routes. After a broken
    connection or a crash, run the same command again: the node belongs to the old hub or to the new one, never to both.
    Once it belongs to the new one, the command does nothing and exits with 0.

    \b
    fairlead edge move wss://hub.other.example.com:10000 --token-file token
    fairlead edge move wss://hub.other.example.com:10000 --token-file - --deadline 1m --undelivered take-along
    fairlead edge move --cancel

    Exit codes: 0 the node belongs to the new hub; 1 it stays at the old one (the reason is shown); 2 wrong use.
    """
    from fairlead_edge.io.moving import move as moves
    from fairlead_wire.errors import FairleadError

    try:
        if cancel:
            click.echo(f"the move is cancelled; the node stays at {moves.cancel(config, os.environ)}")
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
        click.echo("interrupted; the move continues: run the same command to follow it, or --cancel to stop", err=True)
        sys.exit(1)
    if done.since == done.until:
        click.echo(f"{done.node} is at {done.until} already; nothing was done")
        return
    click.echo(
        f"{done.node} moved from {done.since} to {done.until}; once everything works, revoke it in the old cluster:"
        f" fairlead node revoke {done.node}"
    )
