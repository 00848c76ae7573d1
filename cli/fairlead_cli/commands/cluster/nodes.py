"""`fairlead nodes`: the edge nodes, as `kubectl get` would show them if Node and EdgeNode were one object."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.cluster import collections, names
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.collections import Collection, Item
from fairlead_cli.cluster.target import OURS, Target
from fairlead_cli.output import polling, printer
from fairlead_cli.output.colors import Style
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.tables import Column, View
from fairlead_cli.text import ages, to_table
from fairlead_cli.text.ages import Clock

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

EDGE_LABEL = "node-role.kubernetes.io/edge"
NODES, ACCOUNTS = 0, 1
"""Which collection a change belongs to."""
NONE = f"no edge nodes: label one with {EDGE_LABEL}="


def register(root: click.Group) -> None:
    """Add `nodes` to the root command."""
    root.add_command(nodes)


@click.command(short_help="List edge nodes: state, objects, queues, last contact.")
@click.argument("wanted", nargs=-1, metavar="[NAME]...", shell_complete=names.nodes)
@polling.option
@targets.options(selector=True)
@printer.options()
def nodes(wanted: tuple[str, ...], watch: bool, target: Target, shown: Printer) -> None:
    """List edge nodes, from the cluster's API objects alone; exit 1 when a NAME is none.

    STATUS is Connected, Away or Unknown (never seen), followed by what holds it up: Revoked, IdentityHeld, Paused,
    DeletionGuard, RulesUnreadable. OBJECTS is held/wanted. TO TABLE (with -o wide) is how long messages take to a
    table, by priority: half of them, and 95 of 100; "-": not measured. With -o json an item is the node's EdgeNode,
    with the labels of its Node.

    \b
    fairlead nodes -l zone=eu --watch
    fairlead nodes -o jsonpath='{.items[?(@.status.connected==false)].metadata.name}'
    """
    if watch:
        shown.follow(view(ages.utc), target.pages(lambda kube: _followed(kube, target.selector, frozenset(wanted))))
        return
    rows = target.ask(lambda kube: read(kube, target.selector))
    missing = [name for name in wanted if name not in {_name(row) for row in rows}]
    if missing:
        such = " with these labels" if target.selector else ""
        raise click.ClickException(f"there is no edge node {missing[0]}{such}; `fairlead nodes` lists all of them")
    shown.items(view(ages.utc), [row for row in rows if not wanted or _name(row) in wanted], none=none(target.selector))


def none(selector: str) -> str:
    """What is said of an empty list."""
    return f"no edge nodes with labels {selector}" if selector else NONE


async def read(kube: Kube, selector: str = "") -> list[Item]:
    """Edge nodes by name, joined with what the hub says of them."""
    edges, accounts = [await collections.items(kube, each.path, **(each.query or {})) for each in _asked(selector)]
    return joined({_name(each): each for each in edges}, {_name(each): each for each in accounts})


def joined(edges: Mapping[str, Item], accounts: Mapping[str, Item]) -> list[Item]:
    """The EdgeNode of each Node, with that one's labels; a Node the hub has not met yet has an empty status."""
    return [_joined(edges[name], accounts.get(name, {})) for name in sorted(edges)]


def view(clock: Clock) -> View:
    """The columns; ``clock`` is asked for each line."""
    return View(
        kind="edgenode.fairlead.dev",
        name=_name,
        columns=(
            Column("NAME", _name),
            Column("STATUS", _status, style=_style),
            Column("OBJECTS", lambda row: f"{_said(row, 'objectsHeld', 0)}/{_said(row, 'objectsWanted', 0)}"),
            Column("PARKED", lambda row: _said(row, "objectsParked", 0), style=lambda r: _alarm(r, "objectsParked")),
            Column("QUEUED", lambda row: _said(row, "queuedMessages", 0)),
            Column("LAST CONTACT", lambda row: ages.since(_said(row, "lastContactTime"), clock()) or "never"),
            Column("AGE", lambda row: ages.since(row["metadata"].get("creationTimestamp"), clock())),
            Column("DEAD LETTERS", lambda row: _said(row, "deadLetters", 0), wide=True),
            Column("AGENT", lambda row: _said(row, "agentVersion"), wide=True),
            Column("HUB", lambda row: _said(row, "hub"), wide=True),
            Column("IDENTITY", lambda row: _identity(row).get("state"), wide=True, style=_identity_style),
            Column("EXPIRES", lambda row: _identity(row).get("expires"), wide=True),
            Column("PAUSED", lambda row: _said(row, "paused"), wide=True),
            Column("TO TABLE P50/P95", _to_table, wide=True),
        ),
    )


def _asked(selector: str) -> tuple[Collection, Collection]:
    labels = ",".join(filter(None, (EDGE_LABEL, selector)))
    return Collection("api/v1/nodes", {"labelSelector": labels}), Collection(f"{OURS}/edgenodes")


async def _followed(kube: Kube, selector: str, names: frozenset[str]) -> AsyncIterator[list[Item]]:
    """All of them, then those of which anything is said anew. A kubelet's heartbeats are nothing new."""
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
    # Of the Node: a hub that met it late, or wrote its EdgeNode anew, does not make it younger.
    created = edge["metadata"].get("creationTimestamp")
    metadata |= {"creationTimestamp": created, "labels": labels}
    return {
        "apiVersion": account.get("apiVersion", "fairlead.dev/v1alpha1"),
        "kind": account.get("kind", "EdgeNode"),
        "metadata": metadata,
        "status": account.get("status") or {},
    }


def _name(item: Item) -> str:
    return str(item["metadata"]["name"])


def _said(row: Item, key: str, otherwise: Any = None) -> Any:
    value = row["status"].get(key)
    return otherwise if value is None else value


def _status(row: Item) -> str:
    if not row["status"]:
        return "Unknown"
    guard = _said(row, "deletionGuard")
    notes: Iterable[tuple[object, str]] = (
        (True, "Connected" if _said(row, "connected") else "Away"),
        (_identity(row).get("state") == "Revoked", "Revoked"),
        (_identity(row).get("state") == "Held", "IdentityHeld"),
        (_said(row, "paused"), "Paused"),
        (guard and not guard.get("approved"), "DeletionGuard"),
        (_unreadable(row), "RulesUnreadable"),
    )
    return ",".join(itertools.compress((note for _, note in notes), (holds for holds, _ in notes)))


def _identity(row: Item) -> Mapping[str, Any]:
    found: Mapping[str, Any] = _said(row, "identity") or {}
    return found


def _identity_style(row: Item) -> Style:
    return "bad" if _identity(row).get("state") in ("Held", "Revoked", "Expired") else ""


def _to_table(row: Item) -> str:
    from fairlead_hub.status import to_table as rows

    return to_table.cell(rows.rows_in(row["status"]))


def _unreadable(row: Item) -> bool:
    conditions = _said(row, "conditions") or ()
    return any(each.get("type") == "RulesReadable" and each.get("status") == "False" for each in conditions)


def _style(row: Item) -> Style:
    status = _status(row)
    return "good" if status == "Connected" else "warn" if status.startswith("Connected") else "bad"


def _alarm(row: Item, key: str) -> Style:
    return "bad" if _said(row, key) else ""
