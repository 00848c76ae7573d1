"""`fairlead top`: lists the busiest nodes, queues and topics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import click

from fairlead_cli.clients import messaging_client
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.collections import Item
from fairlead_cli.cluster.target import Target
from fairlead_cli.commands.cluster import nodes as node_list
from fairlead_cli.commands.messaging.topics import behind, facts_of
from fairlead_cli.default_command import DefaultCommand
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.tables import OutputColumn, TableView
from fairlead_wire import durations
from fairlead_wire.validation.route_manifest import priority_shown

Row = dict[str, Any]
LIMIT = 10
MEASURE_SECONDS_MAX = 60.0

limit_option = click.option(
    "--limit", type=click.IntRange(1), default=LIMIT, show_default=True, help="How many of the busiest to show."
)


def register(root: click.Group) -> None:
    """Add `top` to the root command."""
    root.add_command(top)


@click.group(cls=DefaultCommand, default="nodes", short_help="Show the busiest nodes, queues and topics.")
def top() -> None:
    """Show the busiest nodes, queues or topics, the busiest first. Without a command: nodes.

    \b
    fairlead top queues --limit 5
    fairlead top topics --seconds 10
    """


@top.command("nodes", short_help="List nodes by waiting messages.")
@limit_option
@targets.options(selector=True)
@printer.options()
def nodes(limit: int, target: Target, shown: Printer) -> None:
    """List nodes by the number of messages waiting on them, then by pending objects.

    The figures are those of EdgeNodes, which are updated on transitions and every few minutes.
    """
    rows = target.ask(lambda kube: node_list.read(kube, target.selector))
    shown.items(NODES, busiest_nodes(rows)[:limit], none=node_list.none(target.selector))


@top.command("queues", short_help="List the queues of all nodes, longest first.")
@limit_option
@targets.options(selector=True)
@printer.options()
def queues(limit: int, target: Target, shown: Printer) -> None:
    """List the message queues of nodes by length, stalled queues first."""
    rows = target.ask(lambda kube: node_list.read(kube, target.selector))
    shown.items(QUEUES, busiest_queues(rows)[:limit], none="no messages wait on any node")


@top.command("topics", short_help="List topics by messages per second.")
@limit_option
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, MEASURE_SECONDS_MAX),
    default=2.0,
    show_default=True,
    help="How long to measure.",
)
@messaging_client.options
@printer.options()
@click.pass_context
def topics(context: click.Context, limit: int, seconds: float, shown: Printer) -> None:
    """List topics by the current publishing rate, then by the lag of their slowest reader."""
    with messaging_client.service(context) as client:
        places = [(namespace, name) for namespace in client.namespaces() for name in client.topics(namespace)]
        begin = time.monotonic()
        before = {place: client.offsets(*place, at="latest").passed or 0 for place in places}
        time.sleep(seconds if places else 0)
        after = {place: client.offsets(*place, at="latest").passed or 0 for place in places}
        spent = max(time.monotonic() - begin, seconds)
        rows = [
            {**facts_of(client, place), "messagesPerSecond": round((after[place] - before[place]) / spent, 1)}
            for place in places
        ]
    rows.sort(key=lambda row: (-row["messagesPerSecond"], -row["lagMessages"], row["namespace"], row["topic"]))
    shown.items(TOPICS, rows[:limit], none="no topics here")


def busiest_nodes(items: Iterable[Item]) -> list[Row]:
    """A row for each node, the busiest first."""
    rows = [_node(item) for item in items]
    return sorted(rows, key=lambda row: (-row["queuedMessages"], -row["objectsPending"], row["node"]))


def busiest_queues(items: Iterable[Item]) -> list[Row]:
    """A row for each queue that is not empty, stalled queues first."""
    rows = [row for item in items for row in _queues(item)]
    return sorted(rows, key=lambda row: (-(row["stalledSeconds"] or 0), -row["length"], row["node"], row["priority"]))


def _node(item: Item) -> Row:
    said = item["status"]
    wanted, held = said.get("objectsWanted") or 0, said.get("objectsHeld") or 0
    return {
        "node": item["metadata"]["name"],
        "connected": bool(said.get("connected")),
        "queuedMessages": said.get("queuedMessages") or 0,
        "storeBytes": said.get("storeBytes") or 0,
        "oldestSeconds": max([row["oldestAgeSeconds"] for row in _queues(item)], default=0),
        "objectsPending": max(0, wanted - held),
        "objectsParked": said.get("objectsParked") or 0,
        "deadLetters": said.get("deadLetters") or 0,
    }


def _queues(item: Item) -> Iterator[Row]:
    for queue in item["status"].get("queues") or ():
        if queue.get("length"):
            yield {
                "node": item["metadata"]["name"],
                "priority": queue.get("priority") or 0,
                "length": queue["length"],
                "bytes": queue.get("bytes") or 0,
                "oldestAgeSeconds": queue.get("oldestAgeSeconds") or 0,
                "stalledSeconds": queue.get("stalledSeconds"),
                "stalledBy": queue.get("stalledBy"),
            }


def _span(seconds: float | None) -> str:
    return durations.span(seconds) if seconds else "-"


NODES = TableView(
    kind="edgenode.fairlead.dev",
    name=lambda row: str(row["node"]),
    columns=(
        OutputColumn("NODE", lambda row: row["node"]),
        OutputColumn("CONNECTED", lambda row: "yes" if row["connected"] else "no"),
        OutputColumn("QUEUED", lambda row: row["queuedMessages"]),
        OutputColumn("BYTES", lambda row: row["storeBytes"]),
        OutputColumn("OLDEST", lambda row: _span(row["oldestSeconds"])),
        OutputColumn("OBJECTS PENDING", lambda row: row["objectsPending"]),
        OutputColumn(
            "PARKED", lambda row: row["objectsParked"], style=lambda row: "bad" if row["objectsParked"] else ""
        ),
        OutputColumn(
            "DEAD LETTERS", lambda row: row["deadLetters"], style=lambda row: "bad" if row["deadLetters"] else ""
        ),
    ),
)
QUEUES = TableView(
    kind="queue",
    name=lambda row: f"{row['node']}/{row['priority']}",
    columns=(
        OutputColumn("NODE", lambda row: row["node"]),
        OutputColumn("PRIORITY", lambda row: priority_shown(row["priority"])),
        OutputColumn("LENGTH", lambda row: row["length"]),
        OutputColumn("BYTES", lambda row: row["bytes"]),
        OutputColumn("OLDEST", lambda row: _span(row["oldestAgeSeconds"])),
        OutputColumn(
            "STALLED FOR",
            lambda row: _span(row["stalledSeconds"]),
            style=lambda r: "bad" if r["stalledSeconds"] else "",
        ),
        OutputColumn("WHY", lambda row: row["stalledBy"]),
    ),
)
TOPICS = TableView(
    kind="topic",
    name=lambda row: f"{row['namespace']}/{row['topic']}",
    columns=(
        OutputColumn("TOPIC", lambda row: f"{row['namespace']}/{row['topic']}"),
        OutputColumn("MESSAGES/S", lambda row: row["messagesPerSecond"]),
        OutputColumn("MESSAGES", lambda row: row["messages"]),
        OutputColumn("BYTES", lambda row: row["bytes"]),
        OutputColumn("READERS", lambda row: row["readers"]),
        OutputColumn("SLOWEST READER BEHIND", behind),
    ),
)
