"""`fairlead resync`: compares what a node holds with what it should hold, and sends the differences."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import click

from fairlead_cli.cluster import delivered, instructions, names
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.target import Target
from fairlead_wire.objects.api_group import PAUSED, RESYNC

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube


def register(root: click.Group) -> None:
    """Add `resync` to the root command."""
    root.add_command(resync)


@click.command(short_help="Compare a node with the cluster again, and send the differences.")
@click.argument("node", shell_complete=names.nodes)
@click.argument("object_name", metavar="[KIND/NAME]", required=False, shell_complete=names.objects)
@targets.options(namespace=True)
def resync(node: str, object_name: str | None, target: Target) -> None:
    """Compare everything on NODE's disk with what it should hold, and send the differences.

    Parked objects are sent again too. If nothing differs, only one digest is sent. The session is interrupted briefly;
    nothing is lost. With KIND/NAME, the output also names the command that shows the state of that object. This is
    normally not needed, because every session begins with a comparison.

    \b
    fairlead resync edge-1
    fairlead resync edge-1 configmap/prices -n shop
    """
    stamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    async def act(kube: Kube) -> str:
        if object_name is not None:
            kind, name = delivered.split(object_name)
            await delivered.find(kube, kind, target.namespace, name)
        found = await instructions.edge_node(kube, node)
        await instructions.write(kube, instructions.node_path(node), {RESYNC: stamp})
        status = found.get("status") or {}
        said = f"node/{node}: requested a comparison from the hub"
        if PAUSED in instructions.of(found):
            said += f"; it is paused, so nothing is sent: fairlead resume {node}"
        elif not status.get("connected"):
            said = f"node/{node} is not connected; it will be compared when it reconnects"
        return said

    click.echo(target.ask(act))
    if object_name is not None:
        place = f" -n {target.given_namespace}" if target.given_namespace else ""
        click.echo(f"to see the state of the object: fairlead explain {object_name}{place} --node {node}", err=True)
