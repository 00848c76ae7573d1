"""`fairlead edge leave`: takes this node out of service after it has delivered its messages."""

from __future__ import annotations

import asyncio
import datetime
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from fairlead_cli.commands.edge.join import CONFIG, config_option, say
from fairlead_cli.commands.edge.move import DEADLINE_MAX, DEADLINE_MIN
from fairlead_cli.parameters import Lifetime

if TYPE_CHECKING:
    from fairlead_edge.io.moving.leave import LeaveDone

NOT_LEAVING = "this node is not leaving its hub"


def register(root: click.Group) -> None:
    """Add `leave` to `edge`."""
    edge = root.commands["edge"]
    assert isinstance(edge, click.Group)
    edge.add_command(leave)


@click.command("leave", short_help="Take this node out of service.")
@config_option("The agent's settings.")
@click.option(
    "--deadline",
    type=Lifetime(DEADLINE_MIN, DEADLINE_MAX),
    default="10m",
    show_default=True,
    help="How long to keep delivering to the hub.",
)
@click.option(
    "--undelivered",
    type=click.Choice(["stay", "leave"]),
    default="stay",
    show_default=True,
    help="If messages are left at the deadline: stay in service, or leave and keep them on this disk.",
)
@click.option("--purge", is_flag=True, help="Afterwards delete everything that the agent has stored on this device.")
@click.option("-y", "--yes", is_flag=True, help="Purge without asking; required without a terminal.")
@click.option("--cancel", is_flag=True, help="Stay in service; possible while the agent is still delivering.")
def leave(
    config: Path,
    deadline: datetime.timedelta,
    undelivered: Literal["stay", "leave"],
    purge: bool,
    yes: bool,
    cancel: bool,
) -> None:
    """Deliver this node's messages, delete its identity and the cluster's objects, and stop the agent.

    While delivering, the agent still accepts messages; at the very end publishing is refused with 503 and code
    `moving`. Undelivered messages, messages for modules and dead letters stay on this disk unless --purge is given. The
    agent does not start again until the device joins a hub (fairlead edge join). After a crash, run the same command
    again; a node that has already left is not changed.

    \b
    fairlead edge leave
    fairlead edge leave --purge --yes
    fairlead edge leave --deadline 1s --undelivered leave     # the hub no longer exists
    fairlead edge leave --cancel

    Afterwards, in the cluster: fairlead node delete NODE. Exit codes: 0 out of service; 1 still in service (the reason
    is shown); 2 wrong use.
    """
    from fairlead_edge.io.moving import leave as leaving
    from fairlead_edge.io.moving import move as moves
    from fairlead_wire.errors import FairleadError

    if cancel and purge:
        raise click.UsageError("--cancel and --purge exclude each other; give one")
    try:
        if cancel:
            click.echo(f"the node stays in service, at {moves.cancel(config, os.environ, nothing=NOT_LEAVING)}")
            return
        if purge and not yes:
            _confirm(*leaving.bytes_kept(config, os.environ))
        wanted = leaving.LeaveOptions(
            config=config,
            deadline_seconds=deadline.total_seconds(),
            undelivered="take-along" if undelivered == "leave" else "stay",
            purge=purge,
        )
        done = asyncio.run(leaving.leave(wanted, os.environ, say))
    except FairleadError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        click.echo("interrupted; the agent continues: run the same command to follow it, or --cancel to stop", err=True)
        sys.exit(1)
    _report(done, config)


def _confirm(node: str, folder: Path, size: int) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("--purge deletes data; without a terminal to ask for confirmation, add --yes")
    if not click.confirm(
        f"Delete {size / 1e6:,.1f} MB in {folder}: all that {node} has stored, dead letters included?"
    ):
        click.echo("not confirmed; nothing was changed")
        sys.exit(1)


def _report(done: LeaveDone, config: Path) -> None:
    left = done.left
    if left.waiting:
        say("not delivered", f"{left.waiting:,} messages; they are on this disk until --purge")
    if done.left_alone:
        say("left alone", f"{', '.join(done.left_alone)}: not the agent's")
    service = "systemctl disable --now fairlead-edge; " if config == CONFIG else ""
    click.echo(
        f"{left.node} is out of service since {left.at}{', and purged' if left.purged else ''}; {service}"
        f"in the cluster: fairlead node delete {left.node}"
    )
