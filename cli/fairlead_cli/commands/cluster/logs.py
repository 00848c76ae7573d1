"""`fairlead logs`: what the programs in the cluster say, of all Pods in one order."""

from __future__ import annotations

import datetime
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.cluster import names, pod_logs
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.pod_logs import LogLine, LogSource
from fairlead_cli.cluster.target import Target
from fairlead_cli.output import colors, printer, reader
from fairlead_cli.output.colors import Style
from fairlead_cli.output.printer import Printer
from fairlead_cli.parameters import lifetime_option
from fairlead_cli.text import log_line, printable

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

    Find = Callable[[Kube], Awaitable[list[LogSource]]]

COMPONENTS = ("hub", "messaging", "ingest", "edge")
TAIL = 100
TAIL_MAX = 1_000_000
_STYLES: dict[str, Style] = {"warning": "warn", "error": "bad", "critical": "bad"}


def register(root: click.Group) -> None:
    """Add `logs` to the root command."""
    root.add_command(logs)


@click.command(short_help="Show what the programs in the cluster say.")
@click.argument("component", required=False, type=click.Choice(COMPONENTS))
@click.option("-f", "--follow", is_flag=True, help="Then what comes, until interrupted.")
@click.option(
    "--since",
    type=lifetime_option.Lifetime(datetime.timedelta(seconds=1), datetime.timedelta(days=365)),
    help="Of the last 10m, 2h, 1d.",
)
@click.option(
    "--tail",
    type=click.IntRange(0, TAIL_MAX),
    help=f"So many lines of each container at most; default: {TAIL}, all with --since.",
)
@click.option("--previous", is_flag=True, help="Of the containers that ran before these: why did it end?")
@click.option("--node", shell_complete=names.nodes, help="Only lines about this node; with `edge`: of the agent there.")
@click.option("--event", "events", multiple=True, help="Only this event, for example session_opened; may be repeated.")
@click.option("--level", type=click.Choice(log_line.LEVELS), help="This one and what is worse.")
@targets.options(namespace=True)
@printer.options(("text", "json"))
def logs(
    component: str | None,
    follow: bool,
    since: datetime.timedelta | None,
    tail: int | None,
    previous: bool,
    node: str | None,
    events: tuple[str, ...],
    level: str | None,
    target: Target,
    shown: Printer,
) -> None:
    """Show the logs of the Pods that the chart made: hub, messaging, ingest and the agents, in the order of time.

    Without COMPONENT all of them; without -n in every namespace. `-o json` prints the lines as they are. The log of an
    agent that is no Pod is on its device: journalctl -u fairlead-edge.

    \b
    fairlead logs hub -f
    fairlead logs hub --node edge-1 --since 1h
    fairlead logs --level warning --since 1d
    """
    if follow and previous:
        raise click.UsageError("--previous containers have ended: there is nothing to follow")
    query = _query(since, tail, previous)
    wanted = frozenset(events)
    about = None if component == "edge" else node

    async def find(kube: Kube) -> list[LogSource]:
        found = await pod_logs.sources(kube, target.given_namespace, component, node if component == "edge" else None)
        if not found:
            where = f"namespace {target.given_namespace}" if target.given_namespace else "the cluster"
            what = f" of {component}" if component else ""
            raise click.ClickException(f"no Pod{what} of Fairlead is in {where}, or none has started")
        return found

    def show(lines: list[LogLine]) -> None:
        for line in lines:
            found = log_line.parse(line.text)
            if log_line.is_wanted(found, node=about, events=wanted, level=level):
                click.echo(_shown(line, found, shown), color=shown.is_colored)

    if not follow:
        show(target.ask(lambda kube: _read(kube, find, query)))
        return
    try:
        for lines in target.pages(lambda kube: _followed(kube, find, query)):
            if not reader.is_there():
                return
            show(lines)
    except KeyboardInterrupt:
        return


def _query(since: datetime.timedelta | None, tail: int | None, previous: bool) -> dict[str, str]:
    query = {"sinceSeconds": str(int(since.total_seconds()))} if since is not None else {}
    if tail is not None or since is None:
        query["tailLines"] = str(TAIL if tail is None else tail)
    if previous:
        query["previous"] = "true"
    return query


async def _read(kube: Kube, find: Find, query: dict[str, str]) -> list[LogLine]:
    """Of all containers; one without a log (it never ran before, its Pod is gone) holds up no other."""
    from fairlead_hub.io.cluster.api_error import ApiRefused

    lines: list[LogLine] = []
    refused: list[str] = []
    found = await find(kube)
    for source in found:
        try:
            lines += await pod_logs.read(kube, source, query)
        except ApiRefused as error:
            refused.append(f"{source.pod}: {error}")
    if len(refused) == len(found):
        raise click.ClickException("; ".join(refused))
    return sorted(lines)


async def _followed(kube: Kube, find: Find, query: dict[str, str]) -> AsyncIterator[list[LogLine]]:
    async for lines in pod_logs.follow(kube, await find(kube), query):
        yield lines


def _shown(line: LogLine, found: dict[str, Any] | None, shown: Printer) -> str:
    if not shown.is_for_people:
        return (
            printable.json_line(line.text)
            if found is not None
            else json.dumps({"ts": line.at, "pod": line.pod, "text": line.text})
        )
    if found is None:
        return printable.one_line(f"{line.at[11:23].ljust(12)}  {'':8}  {line.pod}  {line.text}")
    return colors.paint(
        log_line.text(found, line.pod), _STYLES.get(str(found.get("level")), "") if shown.is_colored else ""
    )
