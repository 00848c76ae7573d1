"""`fairlead explain`: says why an object is on a node, or why not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from fairlead_cli.clients import hub_client
from fairlead_cli.cluster import names
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.target import Target
from fairlead_cli.doctor.cluster import hub_lease
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer
from fairlead_cli.text import printable, quantities

NO = frozenset(
    (
        "no_node",
        "no_object",
        "not_listed",
        "not_selected",
        "not_wanted",
        "not_watched",
        "parked",
        "refused",
        "undeliverable",
        "unreadable",
    )
)
"""Codes of negative answers."""


def register(root: click.Group) -> None:
    """Add `explain` to the root command."""
    root.add_command(explain)


@click.command(short_help="Explain why an object is on a node, or why it is not.")
@click.argument("object_name", metavar="KIND/NAME", shell_complete=names.objects)
@click.option("--node", required=True, shell_complete=names.nodes, help="The edge node.")
@targets.options(namespace=True)
@hub_client.options
@printer.options(printer.DOCUMENTS)
def explain(object_name: str, node: str, hub: str | None, config: Path | None, target: Target, shown: Printer) -> None:
    """Explain how far KIND/NAME is on its way to a node, and why.

    With --hub (or a hub's --config), the answer includes what is queued or in flight right now; otherwise it is based
    on rules, records and EdgeNodes. The namespace is ignored for cluster-scoped objects.

    Exit codes: 0 the node has the object or will get it; 1 it will not get it without a change, or refuses it.

    \b
    fairlead explain configmap/prices -n shop --node edge-1
    fairlead explain edgeroutes/telemetry --node edge-1 -o jsonpath='{.code}'
    """
    kind, slash, name = object_name.partition("/")
    if not slash or not kind or not name or "/" in name:
        raise click.UsageError(f"{object_name}: must be KIND/NAME, for example configmap/prices")
    url = hub_client.hub_url(hub, config)
    if url:
        asked = {"node": node, "kind": kind, "namespace": target.given_namespace or "default", "name": name}
        found = hub_client.ask(url, "/v1/explain", expected="answer", **asked)
    else:
        found = _surveyed(target, node, kind, name)
    with hub_client.readable(url):
        says_no = str(found["code"]) in NO
        if shown.is_for_people:
            _print(found, object_name, node, shown)
        else:
            shown.document(found)
    sys.exit(1 if says_no else 0)


def _print(found: dict[str, Any], object_name: str, node: str, shown: Printer) -> None:
    answer = shown.paint(str(found["answer"]), "bad" if found["code"] in NO else "")
    name = shown.paint(_name(str(found.get("key", "")), object_name), "")
    click.echo(f"{name} on {node}: {answer}", color=shown.is_colored)
    if delivered := found.get("lastDelivered"):
        ago = quantities.since(delivered, quantities.utc())
        click.echo(f"  last delivered  {ago} ago, at {printable.one_line(str(delivered))}")
    for side, label in (("wanted", "in the cluster"), ("held", "on the node")):
        if version := found.get(side):
            details = f"resourceVersion {version['resourceVersion']}, SHA-256 {version['digest'][:12]}…"
            click.echo(f"  {label:14}  {details}")


def _name(key: str, object_name: str) -> str:
    """The kind as it was typed, with the namespace of the key if it has one."""
    kind, _, name = object_name.partition("/")
    namespace = key.split("/")[1] if key.count("/") == 2 else ""
    return "/".join(filter(None, (kind, namespace, name)))


def _surveyed(target: Target, node: str, kind: str, name: str) -> dict[str, Any]:
    from fairlead_hub.io import offline_report

    namespace = target.namespace
    target.ask(hub_lease.warn)
    return target.ask(lambda kube: offline_report.explain(kube, node, kind, namespace, name))
