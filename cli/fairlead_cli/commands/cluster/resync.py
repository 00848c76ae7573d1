"""`fairlead resync`: compare what a node holds with what it should hold, and send the difference."""

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


@click.command(short_help="Compare a node with the cluster again, and send the difference.")
@click.argument("node", shell_complete=names.nodes)
@click.argument("object_name", metavar="[KIND/NAME]", required=False, shell_complete=names.objects)
@targets.options(namespace=True)
def resync(node: str, object_name: str | None, target: Target) -> None:
    """Compare everything NODE holds with what it should hold, from the node's own disk.

    What differs is sent, also what was parked after too many refusals. It costs one digest where nothing differs. The
    node's session ends for a moment; nothing is lost. With KIND/NAME the answer says how that object stands; the whole
    node is compared all the same. Normally none of this is needed: every session begins with it.

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
        said = f"node/{node}: the hub was asked to compare it again"
        if PAUSED in instructions.of(found):
            said += f"; it is paused, so nothing is sent: fairlead resume {node}"
        elif not status.get("connected"):
            said = f"node/{node} is not connected; it is compared when it comes back, as always"
        return said

    click.echo(target.ask(act))
    if object_name is not None:
        place = f" -n {target.given_namespace}" if target.given_namespace else ""
        click.echo(f"fairlead explain {object_name}{place} --node {node} shows how it stands", err=True)
