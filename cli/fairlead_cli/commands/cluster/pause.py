"""`fairlead pause` and `fairlead resume`: stop and resume sending to a node, or sending one object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairlead_cli.cluster import delivered, instructions, names
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.target import Target
from fairlead_cli.text import printable
from fairlead_wire.objects.api_group import PAUSED

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

REASON_CHARS_MAX = 256
"""Longest reason that is shown anywhere."""


def register(root: click.Group) -> None:
    """Add `pause` and `resume` to the root command."""
    root.add_command(pause)
    root.add_command(resume)


@click.command(short_help="Pause sending to a node, or of one object.")
@click.argument("what", metavar="NODE|KIND/NAME", shell_complete=names.nodes_and_objects)
@click.option("--reason", required=True, metavar="TEXT", help="Reason, shown wherever the pause has an effect.")
@targets.options(namespace=True)
def pause(what: str, reason: str, target: Target) -> None:
    """Stop sending objects to a node, or one object to all nodes.

    Changes wait until `fairlead resume`, which sends them at once. Messages from the node are not affected. The pause
    is an annotation (fairlead.dev/paused), so it survives restarts of hub and node.

    \b
    fairlead pause edge-1 --reason "disk swap on Tuesday"
    fairlead pause configmap/prices -n shop --reason "prices are being checked"
    """
    why = " ".join(reason.split())
    if not why or len(why) > REASON_CHARS_MAX:
        raise click.UsageError(f"--reason: must have 1 to {REASON_CHARS_MAX} characters")

    async def act(kube: Kube) -> str:
        path, shown, before = await _found(kube, what, target)
        await instructions.write(kube, path, {PAUSED: why})
        return f"{shown} paused: {why}" + (f" (was paused: {before})" if before not in ("", why) else "")

    click.echo(printable.lines(target.ask(act)))


@click.command(short_help="End a pause: everything that waited is sent immediately.")
@click.argument("what", metavar="NODE|KIND/NAME", shell_complete=names.nodes_and_objects)
@targets.options(namespace=True)
def resume(what: str, target: Target) -> None:
    """End the pause of a node, or of one object.

    \b
    fairlead resume edge-1
    fairlead resume configmap/prices -n shop
    """

    async def act(kube: Kube) -> str:
        path, shown, before = await _found(kube, what, target)
        if not before:
            return f"{shown} is not paused"
        await instructions.write(kube, path, {PAUSED: None})
        return f"{shown} resumed; it was paused: {before}"

    click.echo(printable.lines(target.ask(act)))


async def _found(kube: Kube, what: str, target: Target) -> tuple[str, str, str]:
    """The object's path, its name for people, and the reason of its pause ("": not paused)."""
    if "/" not in what:
        item, path, shown = await instructions.edge_node(kube, what), instructions.node_path(what), f"node/{what}"
    else:
        kind, name = delivered.split(what)
        found = await delivered.find(kube, kind, target.namespace, name)
        item, path, shown = found.item, found.path, f"{found.kind.kind.lower()}/{name}"
    there = instructions.of(item)
    before = there.get(PAUSED)
    return path, shown, "" if before is None else " ".join(before.split()) or "no reason given"
