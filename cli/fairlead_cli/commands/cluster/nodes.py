"""`fairlead nodes`: the edge nodes, as `kubectl get` would show them if Node and EdgeNode were one object."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

import click

from fairlead_cli.cluster import collections, names, node_table
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.collections import Collection, Item
from fairlead_cli.cluster.target import Target
from fairlead_cli.doctor.cluster import hub_lease
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer
from fairlead_wire.objects import api_group
from fairlead_wire.objects.api_group import EDGE_LABEL

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

NODES, ACCOUNTS = 0, 1
"""Which collection a change belongs to."""
VIEW = node_table.view(node_table.of_item)
NONE = f"no edge nodes: label one with {EDGE_LABEL}="


def register(root: click.Group) -> None:
    """Add `nodes` to the root command."""
    root.add_command(nodes)


@click.command(short_help="List edge nodes: state, objects, queues, last contact.")
@click.argument("wanted", nargs=-1, metavar="[NAME]...", shell_complete=names.nodes)
@printer.watch_option
@targets.options(selector=True)
@printer.options()
def nodes(wanted: tuple[str, ...], watch: bool, target: Target, shown: Printer) -> None:
    """List edge nodes from the cluster's API objects; exit 1 if there is no node with a given NAME.

    STATUS is Connected, Away, NodeDeleted or Unknown (never seen), followed by any problems: Revoked, IdentityHeld,
    Paused, DeletionGuard, RulesUnreadable. OBJECTS is held/wanted. QUEUED and LAST CONTACT of a connected node may be
    up to three minutes old, because the hub then writes them that often at most. With -o wide, TO TABLE is the time
    from acceptance to a table by priority (median/95th percentile; "-": not measured). With -o json, each item is an
    EdgeNode with the labels of its Node. `fairlead status` shows the same table, followed by the problems.

    \b
    fairlead nodes -l zone=eu --watch
    fairlead nodes -o jsonpath='{.items[?(@.status.connected==false)].metadata.name}'
    """
    target.ask(hub_lease.warn)
    if watch:
        shown.follow(VIEW, target.pages(lambda kube: _followed(kube, target.selector, frozenset(wanted))))
        return
    rows = target.ask(lambda kube: read(kube, target.selector))
    missing = [name for name in wanted if name not in {_name(row) for row in rows}]
    if missing:
        such = " with these labels" if target.selector else ""
        meant = api_group.similar(missing[0], map(_name, rows))
        listed = f"{meant} `" if meant else "; `"
        said = f"there is no edge node {missing[0]}{such}{listed}fairlead nodes` lists all of them"
        remedy = "" if target.selector else f"; if the Node exists: {api_group.label(missing[0])}"
        raise click.ClickException(f"{said}{remedy}")
    shown.items(VIEW, [row for row in rows if not wanted or _name(row) in wanted], none=none(target.selector))


def none(selector: str) -> str:
    """The note for an empty list."""
    return f"no edge nodes with labels {selector}" if selector else NONE


async def read(kube: Kube, selector: str = "") -> list[Item]:
    """Edge nodes by name, joined with their EdgeNodes, and EdgeNodes whose Node was deleted."""
    from fairlead_hub.status import edge_node

    edges, accounts = [await collections.items(kube, each.path, **(each.query or {})) for each in _asked(selector)]
    found = {_name(each): each for each in accounts}
    # Labels are those of Nodes: where some are asked for, no deleted Node has them.
    gone = {n: each for n, each in found.items() if not selector and edge_node.is_deleted(each.get("status") or {})}
    return joined({**gone, **{_name(each): each for each in edges}}, found)


def joined(edges: Mapping[str, Item], accounts: Mapping[str, Item]) -> list[Item]:
    """The EdgeNode of each Node, with the Node's labels; the status is empty if the hub has not seen it yet."""
    return [_joined(edges[name], accounts.get(name, {})) for name in sorted(edges)]


def _asked(selector: str) -> tuple[Collection, Collection]:
    labels = ",".join(filter(None, (EDGE_LABEL, selector)))
    return Collection("api/v1/nodes", {"labelSelector": labels}), Collection(f"{api_group.ROOT}/edgenodes")


async def _followed(kube: Kube, selector: str, names: frozenset[str]) -> AsyncIterator[list[Item]]:
    """All nodes, then those that changed; a kubelet's heartbeats are not changes."""
    found: tuple[dict[str, Item], dict[str, Item]] = ({}, {})
    last: dict[str, Item] = {}
    async for changes in collections.changes(kube, *_asked(selector)):
        for change in changes:
            if change.deleted:
                found[change.collection].pop(_name(change.item), None)
            else:
                found[change.collection][_name(change.item)] = change.item
        touched = sorted({_name(change.item) for change in changes} & found[NODES].keys())
        rows = [_joined(found[NODES][name], found[ACCOUNTS].get(name, {})) for name in touched]
        fresh = [row for row in rows if last.get(_name(row)) != row and (not names or _name(row) in names)]
        last.update((_name(row), row) for row in fresh)
        yield fresh


def _joined(edge: Item, account: Item) -> Item:
    metadata = dict(account.get("metadata") or {"name": _name(edge)})
    labels = {**(metadata.get("labels") or {}), **(edge["metadata"].get("labels") or {})}
    # The Node's age: its EdgeNode may have been created later, or recreated.
    created = edge["metadata"].get("creationTimestamp")
    metadata |= {"creationTimestamp": created, "labels": labels}
    return {
        "apiVersion": account.get("apiVersion", api_group.API_VERSION),
        "kind": account.get("kind", "EdgeNode"),
        "metadata": metadata,
        "status": account.get("status") or {},
    }


def _name(item: Item) -> str:
    return str(item["metadata"]["name"])
