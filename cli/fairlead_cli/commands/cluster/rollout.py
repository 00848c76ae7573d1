"""`fairlead rollout`: waits until every node holds the newest version of an object."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from fairlead_cli import parameters
from fairlead_cli.cluster import delivered, names
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.target import Target
from fairlead_cli.doctor.cluster import hub_lease
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.tables import OutputColumn, Style, TableView
from fairlead_cli.text import printable

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube
    from fairlead_hub.rollout import NodeProgress, Rollout

PAUSE_SECONDS = 1.0
PAUSE_SHARE = 4.0
"""The longer a survey takes, the longer the pause after it, to spare the API server."""
NAMED_MAX = 5
"""Most nodes named in a line."""
_STYLES: dict[str, Style] = {"held": "good", "parked": "bad", "undeliverable": "bad", "refused": "bad"}


def register(root: click.Group) -> None:
    """Add `rollout` to the root command."""
    root.add_command(rollout)


@click.command(short_help="Wait until every node holds the newest version of an object.")
@click.argument("what", nargs=-1, required=True, metavar="[status] KIND/NAME", shell_complete=names.objects)
@click.option(
    "--watch/--no-watch",
    "-w/ ",
    default=True,
    help="Wait until it is complete; --no-watch only lists the nodes.",
    show_default=True,
)
@click.option(
    "--timeout",
    type=parameters.Lifetime(datetime.timedelta(seconds=1), datetime.timedelta(days=7)),
    help="Maximum wait, for example 90s or 10m, then exit 1; default: wait forever.",
)
@click.option("--connected", is_flag=True, help="Do not wait for nodes that are not connected.")
@targets.options(namespace=True)
@printer.options()
def rollout(
    what: tuple[str, ...],
    watch: bool,
    timeout: datetime.timedelta | None,
    connected: bool,
    target: Target,
    shown: Printer,
) -> None:
    """Wait until every node that should hold KIND/NAME has the cluster's current content, like kubectl rollout status.

    Contents are compared as the nodes acknowledged them; changes of status alone do not count. If the object changes
    meanwhile, the newest version is waited for. The command ends early if a node cannot get it without intervention: it
    is parked, paused or too large to be sent, or a node refuses a route of an EdgeRoutes object.

    \b
    kubectl apply -f prices.yaml && fairlead rollout configmap/prices -n shop --timeout 5m
    fairlead rollout configmap/prices -n shop --connected
    fairlead rollout configmap/prices -n shop --no-watch -o wide

    Exit codes: 0 every node has it; 1 not every node has it, or the timeout has passed.
    """
    words = what[1:] if len(what) == 2 and what[0] == "status" else what
    if len(words) != 1:
        raise click.UsageError("name one object, KIND/NAME; of kubectl's rollout commands only status is supported")
    kind, name = delivered.split(words[0])
    target.ask(hub_lease.warn)

    def asked() -> Rollout:
        return target.ask(lambda kube: _survey(kube, kind, target.namespace, name))

    if not watch or not shown.is_for_people:
        found = asked()
        rows = [msgspec.to_builtins(row) for row in found.rows]
        shown.items(
            _VIEW, rows, none=f"no node should hold {words[0]}; fairlead explain {words[0]} --node NODE says why"
        )
        if found.doubts:
            raise click.ClickException(_doubted(words[0], found))
        sys.exit(0 if _left(found, connected) == 0 else 1)
    _wait(words[0], asked, connected, timeout.total_seconds() if timeout is not None else None)


def _wait(what: str, ask: Callable[[], Rollout], connected: bool, seconds: float | None) -> None:
    """Wait until it is complete, printing a line on each change.  Raises ``click.ClickException`` if it cannot be."""
    found: Rollout | None = None
    ended = time.monotonic() + seconds if seconds is not None else float("inf")
    said = ""
    while printer.has_reader():
        began = time.monotonic()
        try:
            found = ask()
        except _Nothing:
            raise
        except click.ClickException as trouble:
            # An outage of a cluster that could be reached before.
            if found is None:
                raise
            line = f"{trouble.format_message()}; trying again"
        else:
            line = _line(what, found, connected)
        left = _left(found, connected)
        if left == 0 and found.doubts:
            raise click.ClickException(_doubted(what, found))
        if line != said:
            click.echo(printable.lines(line))
            said = line
        if left == 0:
            return
        if left == len(found.stopped):
            raise click.ClickException(_stopped(what, found))
        now = time.monotonic()
        if now >= ended:
            missing = left - sum(row.state == "removing" and _waited_for(row, connected) for row in found.rows)
            raise click.ClickException(
                f"after {seconds:g} s {missing} of {found.nodes} nodes do not have it: {_named(found)}"
            )
        time.sleep(min(max(PAUSE_SECONDS, PAUSE_SHARE * (now - began)), ended - now))


class _Nothing(click.ClickException):
    """There is nothing to wait for."""


async def _survey(kube: Kube, kind: str, namespace: str, name: str) -> Rollout:
    from fairlead_hub.io import offline_rollout

    try:
        return await offline_rollout.survey(kube, kind, namespace, name)
    except offline_rollout.NoRollout as error:
        raise _Nothing(str(error)) from None


def _left(found: Rollout, connected: bool) -> int:
    """The number of nodes that are waited for."""
    return sum(_waited_for(row, connected) for row in found.rows)


def _waited_for(row: NodeProgress, connected: bool) -> bool:
    if row.state == "held":
        return False
    return not (connected and row.away and row.state in ("away", "removing"))


def _doubted(what: str, found: Rollout) -> str:
    return f"it is unknown which nodes should hold {what}: {'; '.join(found.doubts)}"


def _line(what: str, found: Rollout, connected: bool) -> str:
    if not found.rows:
        return f"{what}: no node should hold it; fairlead explain {what} --node NODE says why"
    if _left(found, connected) == 0:
        away = found.nodes - found.count("held")
        rest = f"; {away} are away and will get it when they return" if away else ""
        return f"{what} version {found.version} is held by {found.count('held')} of {found.nodes} nodes{rest}"
    held = f"{found.count('held')} of {found.nodes} nodes hold it"
    return f"waiting for {what} version {found.version}: {held}; {_named(found)}"


def _named(found: Rollout) -> str:
    """The first nodes of each state that is not held."""
    from fairlead_hub.rollout import STATES

    parts = []
    for state in STATES:
        nodes = [row.node for row in found.rows if row.state == state]
        if nodes and state != "held":
            more = f" and {len(nodes) - NAMED_MAX} more" if len(nodes) > NAMED_MAX else ""
            parts.append(f"{state}: {', '.join(nodes[:NAMED_MAX])}{more}")
    return "; ".join(parts)


def _stopped(what: str, found: Rollout) -> str:
    first = found.stopped[0]
    more = f"; {len(found.stopped) - 1} more nodes" if len(found.stopped) > 1 else ""
    remedy = {"paused": "resume", "parked": "resync"}.get(first.state)
    object_paused = first.state == "paused" and first.reason.startswith("the object")
    hint = f"; fairlead {remedy} {what if object_paused else first.node}" if remedy else ""
    return f"{what} is {first.state} at {first.node}: {first.reason or 'no reason given'}{more}{hint}"


def _view() -> TableView:
    def style(row: dict[str, Any]) -> Style:
        return _STYLES.get(str(row["state"]), "warn")

    return TableView(
        kind="edgenode.fairlead.dev",
        name=lambda row: str(row["node"]),
        columns=(
            OutputColumn("NODE", lambda row: row["node"]),
            OutputColumn("STATE", lambda row: row["state"], style=style),
            OutputColumn("HELD", lambda row: row["version"]),
            OutputColumn("REASON", lambda row: row["reason"]),
        ),
    )


_VIEW = _view()
