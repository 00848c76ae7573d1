"""`fairlead rbac`: prints the role that lets a hub read exactly what its SyncRules send."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TextIO

import click

from fairlead_cli.cluster import collections, hub_role
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.target import Target
from fairlead_cli.manifests import NotReadable, read_documents
from fairlead_cli.text import yaml_text
from fairlead_wire.objects import api_group

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube

NAME = "fairlead-hub-delivered"


def register(root: click.Group) -> None:
    """Add `rbac` to the root command."""
    root.add_command(rbac)


@click.command(short_help="Print the role that a hub needs for its SyncRules.")
@click.option(
    "-f",
    "--file",
    "file",
    type=click.File(encoding="utf-8"),
    metavar="FILE|-",
    help="Also include the SyncRules in this file.",
)
@click.option(
    "--hub-account",
    metavar="NAMESPACE:NAME",
    help="Service account that gets the role; default: that of the hub's Pods.",
)
@click.option("--name", default=NAME, show_default=True, help="Name of the ClusterRole and its binding.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
@targets.options()
def rbac(file: TextIO | None, hub_account: str | None, name: str, output: str, target: Target) -> None:
    """Print the ClusterRole, and its binding, that lets the hub get, list and watch the kinds SyncRules name, and patch
    the status of those with `statusFromEdge: true`.

    The rules are those in the cluster and, with -f, those in a file: grant the role first, then apply the rules.
    Nothing is changed. With this role, the chart's `hub.resources` can be empty. `fairlead doctor --cluster` reports
    permissions that are missing or not needed.

    \b
    fairlead rbac | kubectl apply -f -
    fairlead rbac -f rules.yaml --hub-account fairlead:fairlead-hub
    """
    written = _written(file)
    given = hub_role.parse(hub_account)

    async def asked(kube: Kube) -> tuple[list[dict[str, Any]], list[str]]:
        rules = [*await collections.items(kube, f"{api_group.ROOT}/syncrules"), *written]
        kinds, reported = hub_role.named(rules), hub_role.reported(rules)
        account = given or hub_role.one_of(await hub_role.hub_accounts(kube))
        served = await hub_role.served(kube, kinds)
        unserved = [f"{kind} of {version}" for version, kind in sorted(kinds - served.keys())]
        statuses = [served[each] for each in reported & served.keys()]
        return hub_role.documents(name, account, served.values(), statuses), unserved

    found, unserved = target.ask(asked)
    for each in unserved:
        click.echo(f"omitted because the API server does not serve it: {each}", err=True)
    if output == "json":
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": found}, indent=2))
    else:
        click.echo("---\n".join(map(yaml_text.text_of, found)), nl=False)


def _written(file: TextIO | None) -> list[dict[str, Any]]:
    if file is None:
        return []
    try:
        values = [each.value for each in read_documents(file.read())]
    except (NotReadable, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file.name}: {error}; give SyncRules as YAML or JSON") from None
    items = [item for value in values if isinstance(value, dict) for item in value.get("items") or (value,)]
    return [item for item in items if isinstance(item, dict) and item.get("kind") == "SyncRule"]
