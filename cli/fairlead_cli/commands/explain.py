"""`fairlead explain`: why is this object at this node, or why not?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from fairlead_cli import hub_account

NO = frozenset(
    (
        "no_node",
        "no_object",
        "not_listed",
        "not_selected",
        "not_watched",
        "parked",
        "refused",
        "unreadable",
    )
)
"""Codes of answers that say no."""


def register(root: click.Group) -> None:
    """Add `explain` to the root command."""
    root.add_command(explain)


@click.command(short_help="Say why an object is at a node, or why not.")
@click.argument("object_name", metavar="KIND/NAME")
@click.option("-n", "--namespace", default="default", show_default=True, help="Of the object; none for cluster-scoped.")
@click.option("--node", required=True, help="The edge node.")
@hub_account.options
def explain(
    object_name: str,
    namespace: str,
    node: str,
    hub: str | None,
    config: Path | None,
    kubeconfig: Path | None,
    output: str,
) -> None:
    """Say at which step of the path KIND/NAME is on its way to a node, and why.

    With --hub (or a hub's --config) the answer includes what is queued or in flight right now; otherwise it is made
    from rules, records and EdgeNodes.

    Exit 0: the node has it, or will get it; 1: it has not and will not as things are, or does not do what it says.
    """
    kind, slash, name = object_name.partition("/")
    if not slash or not kind or not name or "/" in name:
        raise click.UsageError(f"{object_name}: must be KIND/NAME, for example configmap/prices")
    url = hub_account.hub_url(hub, config)
    if url:
        asked = {"node": node, "kind": kind, "namespace": namespace, "name": name}
        found = hub_account.ask(url, "/v1/explain", expected="answer", **asked)
    else:
        found = _surveyed(kubeconfig, node, kind, namespace, name)
    if output == "json":
        hub_account.print_json(found)
    else:
        _print(found, object_name, node)
    sys.exit(1 if found["code"] in NO else 0)


def _print(found: dict[str, Any], object_name: str, node: str) -> None:
    click.echo(f"{found.get('key', object_name)} at {node}: {found['answer']}")
    for side in ("wanted", "held"):
        if side in found:
            version = found[side]
            click.echo(f"  {side:7} version {version['resourceVersion']}, content {version['digest'][:12]}")


def _surveyed(kubeconfig: Path | None, node: str, kind: str, namespace: str, name: str) -> dict[str, Any]:
    from fairlead_hub.io import offline_report

    return hub_account.survey(kubeconfig, lambda kube: offline_report.explain(kube, node, kind, namespace, name))
