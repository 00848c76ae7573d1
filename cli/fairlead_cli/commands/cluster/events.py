"""`fairlead events`: lists the Kubernetes Events of hubs, newest last."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import click

from fairlead_cli.cluster import collections, names
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.collections import Collection, Item
from fairlead_cli.cluster.target import Target
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.tables import OutputColumn, TableView
from fairlead_cli.text import quantities
from fairlead_cli.text.quantities import Clock

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

SOURCE = "fairlead-hub"
TYPES = ("Normal", "Warning")


def register(root: click.Group) -> None:
    """Add `events` to the root command."""
    root.add_command(events)


@click.command(short_help="List the Events of hubs about nodes, objects, rules and routes.")
@click.argument("node", required=False, shell_complete=names.nodes)
@click.option("--type", type=click.Choice(TYPES, case_sensitive=False), help="Only of this type.")
@printer.watch_option
@targets.options(namespace=True, all_namespaces=True)
@printer.options()
def events(node: str | None, type: str | None, watch: bool, target: Target, shown: Printer) -> None:
    """List the Kubernetes Events of hubs, newest last; with NODE, those about this node in all namespaces.

    Events about cluster-scoped objects (nodes, rules, routes) are in namespace default. The API server keeps Events for
    an hour; the topic system/events keeps all of them: fairlead tail system/events.

    \b
    fairlead events edge-1 --watch
    fairlead events -A --type Warning
    """
    query = {"fieldSelector": ",".join([f"source={SOURCE}", *([f"type={type}"] if type else [])])}
    everywhere = target.all_namespaces or (node is not None and target.given_namespace is None)
    asked = Collection("api/v1/events" if everywhere else target.path("events", "api/v1"), query)
    if watch:
        shown.follow(view(quantities.utc), target.pages(lambda kube: _followed(kube, asked, node)))
        return
    rows = target.ask(lambda kube: collections.items(kube, asked.path, **query))
    where = "" if everywhere else f" in namespace {target.namespace}; -A shows all"
    about = f" about {node}" if node else ""
    shown.items(view(quantities.utc), _sorted(rows, node), none=f"no events{about}{where}")


def view(clock: Clock) -> TableView:
    """The columns of ``kubectl get events``, and COUNT; ``clock`` is read for each line."""
    return TableView(
        kind="event",
        name=lambda row: str(row["metadata"]["name"]),
        columns=(
            OutputColumn("LAST SEEN", lambda row: quantities.since(_last(row), clock())),
            OutputColumn(
                "TYPE", lambda row: row.get("type"), style=lambda row: "warn" if row.get("type") == "Warning" else ""
            ),
            OutputColumn("REASON", lambda row: row.get("reason")),
            OutputColumn("COUNT", lambda row: row.get("count")),
            OutputColumn("OBJECT", _about),
            OutputColumn("MESSAGE", lambda row: row.get("message")),
            OutputColumn("NAMESPACE", lambda row: row["metadata"].get("namespace"), wide=True),
            OutputColumn("FIRST SEEN", lambda row: quantities.since(row.get("firstTimestamp"), clock()), wide=True),
            OutputColumn("HUB", lambda row: (row.get("source") or {}).get("host"), wide=True),
        ),
    )


async def _followed(kube: Kube, asked: Collection, node: str | None) -> AsyncIterator[list[Item]]:
    async for changes in collections.changes(kube, asked):
        yield _sorted([change.item for change in changes if not change.deleted], node)


def _sorted(rows: list[Item], node: str | None) -> list[Item]:
    return sorted((row for row in rows if _concerns(row, node)), key=_last)


def _concerns(row: Item, node: str | None) -> bool:
    """True if the Event is about the node: an EdgeNode has its name, a record is named NODE.UID."""
    about = row.get("involvedObject") or {}
    name = str(about.get("name", ""))
    return (
        node is None
        or name == node
        or (str(about.get("kind", "")).endswith("ObjectSync") and name.rpartition(".")[0] == node)
    )


def _last(row: Item) -> str:
    return str(row.get("lastTimestamp") or row["metadata"].get("creationTimestamp") or "")


def _about(row: Item) -> str:
    about = row.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"
