"""`fairlead routes list`: lists EdgeRoutes, and their state at each node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.cluster import collections, names
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.collections import Collection, Item
from fairlead_cli.cluster.target import Target
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.tables import OutputColumn, Style, TableView
from fairlead_cli.text import quantities
from fairlead_cli.text.quantities import Clock
from fairlead_wire.objects import api_group

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

_STYLES: dict[str, Style] = {"Accepted": "good", "Lagging": "warn", "Refused": "bad"}


@click.command("list", short_help="List EdgeRoutes, and which nodes accepted or refused them.")
@click.argument("name", required=False, shell_complete=names.edge_routes)
@click.option(
    "--by-node", is_flag=True, help="List each node, with the number of running routes and the first mistake."
)
@click.option("--node", metavar="NODE", shell_complete=names.nodes, help="Only this node; implies --by-node.")
@printer.watch_option
@targets.options(selector=True)
@printer.options()
def list_(name: str | None, by_node: bool, node: str | None, watch: bool, target: Target, shown: Printer) -> None:
    """List all EdgeRoutes, or the one named NAME, with the number of nodes that accepted, refused, or lag behind.

    With --by-node (or --node), the state at each node: Accepted (all routes are in force), Refused (some are not, with
    the reason), or Lagging (the newest version is not in force yet). `list` may be omitted.

    \b
    fairlead routes
    fairlead routes --by-node -o wide
    fairlead routes telemetry --node edge-1 -o jsonpath='{.items[*].errors}'
    """
    if by_node or node is not None:
        asked = Collection(f"{api_group.ROOT}/edgenodes", {"fieldSelector": f"metadata.name={node}"} if node else {})
        if target.selector:
            raise click.UsageError("-l selects EdgeRoutes by label, and cannot be combined with --by-node or --node")
        if watch:
            shown.follow(BY_NODE, target.pages(lambda kube: _followed(kube, asked, name)))
        else:
            rows = list(
                by_nodes(target.ask(lambda kube: collections.items(kube, asked.path, **(asked.query or {}))), name)
            )
            shown.items(BY_NODE, rows, none=f"no node has reported on {name or 'EdgeRoutes'}")
        return
    query = {**target.query(), **({"fieldSelector": f"metadata.name={name}"} if name else {})}
    asked = Collection(f"{api_group.ROOT}/edgeroutes", query)
    if watch:
        shown.follow(view(quantities.utc), target.pages(lambda kube: _watched(kube, asked)))
        return
    rows = target.ask(lambda kube: collections.items(kube, asked.path, **query))
    if name and not rows:
        raise click.ClickException(f"there are no EdgeRoutes {name}; `fairlead routes` lists all of them")
    shown.items(view(quantities.utc), rows, none="no EdgeRoutes: nodes route nothing until one selects them")


def view(clock: Clock) -> TableView:
    """The columns of ``kubectl get edgeroutes``; ``clock`` is asked for each line."""
    return TableView(
        kind="edgeroutes.fairlead.dev",
        name=lambda row: str(row["metadata"]["name"]),
        columns=(
            OutputColumn("NAME", lambda row: row["metadata"]["name"]),
            OutputColumn("NODES", lambda row: _said(row, "matchedNodes")),
            OutputColumn("ACCEPTED", lambda row: _said(row, "acceptedNodes")),
            OutputColumn(
                "REFUSED", lambda row: _said(row, "refusedNodes"), style=lambda row: _alarm(row, "refusedNodes")
            ),
            OutputColumn(
                "LAGGING", lambda row: _said(row, "laggingNodes"), style=lambda row: _alarm(row, "laggingNodes")
            ),
            OutputColumn("AGE", lambda row: quantities.since(row["metadata"].get("creationTimestamp"), clock())),
            OutputColumn("MESSAGE", lambda row: _said(row, "message")),
        ),
    )


def by_nodes(accounts: Iterable[Item], name: str | None) -> Iterator[Item]:
    """A row for each node and EdgeRoutes object, from the status of EdgeNodes."""
    for account in sorted(accounts, key=lambda each: str(each["metadata"]["name"])):
        for said in _said(account, "routes") or ():
            if name in (None, said.get("name")):
                yield {"node": account["metadata"]["name"], "routes": said.get("name", ""), **_without_name(said)}


BY_NODE = TableView(
    kind="edgeroutes.fairlead.dev",
    name=lambda row: str(row["routes"]),
    columns=(
        OutputColumn("NODE", lambda row: row["node"]),
        OutputColumn("ROUTES", lambda row: row["routes"]),
        OutputColumn("STATE", lambda row: row.get("state"), style=lambda row: _STYLES.get(row.get("state"), "")),
        OutputColumn("RUNNING", lambda row: len(row.get("acceptedRoutes") or ())),
        OutputColumn("REFUSED", lambda row: len(row.get("errors") or ())),
        OutputColumn("WHY", lambda row: _why(row)),
        OutputColumn("GENERATION", lambda row: row.get("observedGeneration"), wide=True),
        OutputColumn("IN FORCE", lambda row: ",".join(row.get("acceptedRoutes") or ()), wide=True),
    ),
)


async def _watched(kube: Kube, asked: Collection) -> AsyncIterator[list[Item]]:
    async for changes in collections.changes(kube, asked):
        yield [change.item for change in changes if not change.deleted]


async def _followed(kube: Kube, asked: Collection, name: str | None) -> AsyncIterator[list[Item]]:
    last: dict[tuple[str, str], Item] = {}
    async for changes in collections.changes(kube, asked):
        rows = list(by_nodes((change.item for change in changes if not change.deleted), name))
        fresh = [row for row in rows if last.get((row["node"], row["routes"])) != row]
        last.update(((row["node"], row["routes"]), row) for row in fresh)
        yield fresh


def _why(row: Item) -> str:
    """The first mistake, with its place, or the node's message."""
    errors = row.get("errors") or ()
    if not errors:
        return str(row.get("message") or "")
    first = errors[0]
    place = f"{first['line']}:{first['column']}: " if first.get("line") and first.get("column") else ""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{first.get('route') or 'manifest'}: {place}{first.get('message', '')}{more}"


def _without_name(said: Item) -> Item:
    return {key: value for key, value in said.items() if key != "name"}


def _said(row: Item, key: str) -> Any:
    return (row.get("status") or {}).get(key)


def _alarm(row: Item, key: str) -> Style:
    return "bad" if _said(row, key) else ""
