"""`fairlead objects`: lists the objects that nodes hold, as recorded in ObjectSync and ClusterObjectSync."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator
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

STATES = ("Synced", "Pending", "Behind", "Parked", "Deleting")
_STYLES: dict[str, Style] = {"Synced": "good", "Pending": "warn", "Behind": "warn", "Deleting": "warn", "Parked": "bad"}


def register(root: click.Group) -> None:
    """Add `objects` to the root command."""
    root.add_command(objects)


@click.command(short_help="List the objects that nodes hold.")
@click.argument("node", required=False, shell_complete=names.nodes)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only in this state; may be repeated.",
)
@printer.watch_option
@targets.options(namespace=True, all_namespaces=True, selector=True)
@printer.options()
def objects(node: str | None, states: tuple[str, ...], watch: bool, target: Target, shown: Printer) -> None:
    """List the records (ObjectSync, ClusterObjectSync) of the objects that nodes hold.

    With NODE: all records of that node, in all namespaces unless -n is given. Without: the records of all nodes in one
    namespace; -A adds the other namespaces and cluster-scoped objects.

    \b
    fairlead objects edge-1 -o wide
    fairlead objects -A --state Parked
    fairlead objects -n shop -l fairlead.dev/kind=ConfigMap --watch
    """
    asked = _asked(node, target)
    wanted = frozenset(states)
    if watch:
        shown.follow(view(quantities.utc), target.pages(lambda kube: _followed(kube, asked, wanted)))
        return
    rows = target.ask(lambda kube: _read(kube, asked, wanted, node))
    where = f"of node {node}" if node else f"in namespace {target.namespace}; -A shows all" if target.namespace else ""
    state = f" in state {' or '.join(states)}" if states else ""
    shown.items(view(quantities.utc), rows, none=f"no records{state} {where}".rstrip())


def view(clock: Clock) -> TableView:
    """The columns of ``kubectl get objectsyncs``, with the namespace; ``clock`` is asked for each line."""
    return TableView(
        kind=lambda row: f"{row['kind'].lower()}.fairlead.dev",
        name=lambda row: str(row["metadata"]["name"]),
        columns=(
            OutputColumn("NODE", lambda row: row["spec"].get("nodeName")),
            OutputColumn("NAMESPACE", lambda row: row["metadata"].get("namespace")),
            OutputColumn("OBJECT", lambda row: f"{row['spec'].get('objectKind')}/{row['spec'].get('objectName')}"),
            OutputColumn("STATE", _state, style=lambda row: _STYLES.get(_state(row), "")),
            OutputColumn("HELD", lambda row: _said(row, "objectResourceVersion")),
            OutputColumn("WANTED", lambda row: _said(row, "wantedResourceVersion")),
            OutputColumn("AGE", lambda row: quantities.since(row["metadata"].get("creationTimestamp"), clock())),
            OutputColumn(
                "SINCE", lambda row: quantities.since(_synced(row).get("lastTransitionTime"), clock()), wide=True
            ),
            OutputColumn("RETRIES", lambda row: _said(row, "retries"), wide=True),
            OutputColumn("NEXT RETRY", lambda row: _said(row, "nextRetryTime"), wide=True),
            OutputColumn("REASON", lambda row: _said(row, "reason"), wide=True),
            OutputColumn("MESSAGE", lambda row: _synced(row).get("message"), wide=True),
        ),
    )


def _asked(node: str | None, target: Target) -> tuple[Collection, ...]:
    query = target.query()
    if node is not None:
        query["fieldSelector"] = f"spec.nodeName={node}"
    everywhere = target.all_namespaces or (node is not None and target.given_namespace is None)
    if not everywhere:
        return (Collection(target.path("objectsyncs"), query),)
    return Collection(f"{api_group.ROOT}/objectsyncs", query), Collection(f"{api_group.ROOT}/clusterobjectsyncs", query)


async def _read(kube: Kube, asked: tuple[Collection, ...], states: frozenset[str], node: str | None) -> list[Item]:
    from fairlead_hub.io.cluster.api_error import ApiRefused

    found = [row for each in asked for row in await collections.items(kube, each.path, **(each.query or {}))]
    if not found and node is not None:
        try:
            await kube.get(f"api/v1/nodes/{urllib.parse.quote(node, safe='')}")
        except ApiRefused as error:
            if error.status != 404:
                raise
            raise click.ClickException(f"there is no node {node}; `fairlead nodes` lists them") from None
    return sorted((row for row in found if _is_in(row, states)), key=_order)


async def _followed(kube: Kube, asked: tuple[Collection, ...], states: frozenset[str]) -> AsyncIterator[list[Item]]:
    is_first = True
    async for changes in collections.changes(kube, *asked):
        rows = [change.item for change in changes if not change.deleted and _is_in(change.item, states)]
        yield sorted(rows, key=_order) if is_first else rows
        is_first = False


def _order(row: Item) -> tuple[str, ...]:
    spec = row["spec"]
    place = (spec.get("nodeName"), row["metadata"].get("namespace"), spec.get("objectKind"), spec.get("objectName"))
    return tuple(str(each or "") for each in place)


def _is_in(row: Item, states: frozenset[str]) -> bool:
    return not states or _state(row) in states


def _said(row: Item, key: str) -> Any:
    return (row.get("status") or {}).get(key)


def _state(row: Item) -> str:
    return str(_said(row, "state") or "Pending")


def _synced(row: Item) -> Item:
    conditions = _said(row, "conditions") or ()
    return next((each for each in conditions if each.get("type") == "Synced"), {})
