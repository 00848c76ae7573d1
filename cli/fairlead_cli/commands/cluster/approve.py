"""`fairlead approve`: approves deletions that the deletion guard stopped."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.cluster import collections, instructions, names
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.target import Target
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.tables import OutputColumn, TableView
from fairlead_cli.text import quantities
from fairlead_wire.objects import api_group
from fairlead_wire.objects.api_group import APPROVE_DELETIONS

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

SHOWN_MAX = 50
STOPPED = "DeletionGuard"
"""Reason of an ObjectSync whose deletion was stopped."""
VIEW = TableView(
    kind="object",
    name=lambda row: str(row["object"]),
    columns=(
        OutputColumn("OBJECT", lambda row: row["object"]),
        OutputColumn("NAMESPACE", lambda row: row["namespace"] or "-"),
        OutputColumn("VERSION", lambda row: row["version"]),
    ),
)


def register(root: click.Group) -> None:
    """Add `approve` to the root command."""
    root.add_command(approve)


@click.command(short_help="Approve deletions that the deletion guard stopped at a node.")
@click.argument("node", shell_complete=names.nodes)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal.")
@targets.options()
@printer.options(("text", "wide", "name", "json", "yaml"))
def approve(node: str, yes: bool, target: Target, shown: Printer) -> None:
    """Show which objects would be deleted at NODE, ask for confirmation, and approve it.

    A hub with [deletion_guard] stops too many deletions at once, as when a rule is deleted by mistake. Only the
    deletions shown are approved; later ones are counted separately.

    \b
    fairlead approve edge-1
    fairlead approve edge-1 --yes

    Exit codes: 0 approved, or nothing to approve; 1 not approved; 2 no terminal and no --yes.
    """
    found, due = target.ask(lambda kube: _stopped(kube, node))
    guard = (found.get("status") or {}).get("deletionGuard")
    if not guard:
        shown.say(f"node/{node}: nothing to approve")
        return
    if guard.get("approved"):
        shown.say(f"node/{node}: {quantities.of(guard['count'], 'deletion')} approved already ({guard['id']})")
        return
    shown.items(VIEW, due[:SHOWN_MAX] if shown.is_for_people else due)
    listed = f", {len(due) - SHOWN_MAX} more are not shown" if shown.is_for_people and len(due) > SHOWN_MAX else ""
    stopped = quantities.of(guard["count"], "deletion")
    shown.say(f"node/{node}: {stopped} stopped at {guard['since']} (guard {guard['id']}){listed}")
    if not yes and not _is_asked():
        raise click.UsageError("no terminal to ask for confirmation: check the list, then run it again with --yes")
    if not yes and not click.confirm(f"Delete these at {node}?", err=True):
        shown.say("not approved; nothing was changed")
        sys.exit(1)
    target.ask(lambda kube: instructions.write(kube, instructions.node_path(node), {APPROVE_DELETIONS: guard["id"]}))
    shown.say(f"node/{node}: approved; the hub deletes them now")


def _is_asked() -> bool:
    """True at a terminal."""
    return sys.stdin.isatty()


async def _stopped(kube: Kube, node: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The EdgeNode, and the objects whose deletion was stopped."""
    found = await instructions.edge_node(kube, node)
    due: list[dict[str, Any]] = []
    for plural in ("objectsyncs", "clusterobjectsyncs"):
        path = f"{api_group.ROOT}/{plural}"
        due += [
            row
            for item in await collections.items(kube, path, fieldSelector=f"spec.nodeName={node}")
            if (row := _row(item)) is not None
        ]
    return found, sorted(due, key=lambda row: (row["namespace"], row["object"]))


def _row(item: dict[str, Any]) -> dict[str, Any] | None:
    """The row of a record; None unless its deletion was stopped."""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    if status.get("reason") != STOPPED:
        return None
    return {
        "object": f"{spec['objectKind'].lower()}/{spec['objectName']}",
        "namespace": item["metadata"].get("namespace", ""),
        "version": str(status.get("objectResourceVersion") or "?"),
    }
