"""`fairlead status`: nodes, lag, parked objects."""

from __future__ import annotations

import urllib.parse
from pathlib import Path
from typing import Any

import click

from fairlead_cli import durations, hub_account

HEAD = ("NODE", "CONNECTED", "OBJECTS WANTED", "OBJECTS HELD", "PENDING", "LAG", "PARKED", "LAST CONTACT")


def register(root: click.Group) -> None:
    """Add `status` to the root command."""
    root.add_command(status)


@click.command(short_help="Show every node: connected, wanted, held, pending, parked.")
@click.argument("node", required=False)
@hub_account.options
def status(node: str | None, hub: str | None, config: Path | None, kubeconfig: Path | None, output: str) -> None:
    """Show every node, or one NODE in detail.

    With --hub (or a hub's --config) it shows what is in flight right now; otherwise what the API objects tell.
    """
    url = hub_account.hub_url(hub, config)
    if node is None:
        found = hub_account.ask(url, "/v1/nodes", expected="nodes") if url else _surveyed(kubeconfig)
    elif url:
        found = hub_account.ask(url, f"/v1/nodes/{urllib.parse.quote(node, safe='')}", expected="node")
    else:
        found = _one(_surveyed(kubeconfig), node)
    if output == "json":
        hub_account.print_json(found)
    elif node is None:
        _print_all(found)
    else:
        _print_one(found)


def _surveyed(kubeconfig: Path | None) -> dict[str, Any]:
    from fairlead_hub.io import offline_report
    from fairlead_hub.io.kube import Kube

    async def asked(kube: Kube) -> dict[str, Any]:
        nodes, parked = await offline_report.nodes(kube), await offline_report.parked(kube)
        return {"nodes": nodes, "parked": parked, "unreadable": await offline_report.unreadable(kube)}

    return hub_account.survey(kubeconfig, asked)


def _one(found: dict[str, Any], node: str) -> dict[str, Any]:
    for row in found["nodes"]:
        if row["node"] == node:
            mine = [record for record in found["parked"] if record["node"] == node]
            return {**row, "parkedObjects": [_parked(record) for record in mine]}
    raise click.ClickException(f"there is no edge Node {node}")


def _parked(record: dict[str, Any]) -> dict[str, Any]:
    place = "/".join(filter(None, (record["kind"], record["namespace"], record["object_name"])))
    return {"key": place, "code": record["reason"], "reason": record["reason"], "retries": record["retries"]}


def _print_all(found: dict[str, Any]) -> None:
    rows = found["nodes"]
    if not rows:
        click.echo("no edge Nodes: label one with node-role.kubernetes.io/edge=")
    else:
        _print_table(rows)
    for rule in found.get("unreadable", []):
        click.echo(f"{rule['kind']} {rule['name']} cannot be read: {rule['reason']}; {rule['consequence']}")
    for record in found.get("parked", []):
        parked = _parked(record)
        click.echo(f"parked at {record['node']}: {parked['key']}: {parked['reason']}")
    for stale in found.get("stale", []):
        click.echo(f"stale since {stale['since']}: {stale['collection']}: {stale['reason']}")
    refused = found.get("recordsRefused") or {"count": 0}
    if refused["count"]:
        click.echo(f"{refused['count']} records refused since {refused['since']}: {refused['reason']}")


def _print_table(rows: list[dict[str, Any]]) -> None:
    """With a column of notes only where there is something to note."""
    notes = [_note(row) for row in rows]
    if any(notes):
        lines = [(*_line(row), note) for row, note in zip(rows, notes, strict=True)]
        hub_account.print_table((*HEAD, "NOTE"), lines)
    else:
        hub_account.print_table(HEAD, [_line(row) for row in rows])


def _line(row: dict[str, Any]) -> tuple[Any, ...]:
    lag = row.get("lagSeconds", 0)
    return (
        row["node"],
        "yes" if row["connected"] else "no",
        row["wanted"],
        row["held"],
        row["pending"],
        durations.span(lag) if lag else "-",
        row["parked"],
        row["lastContact"] or "never",
    )


def _note(row: dict[str, Any]) -> str:
    """What people paused at this node, and what the hub stopped by itself."""
    notes = [f"paused: {row['paused']}"] if row.get("paused") else []
    guard = row.get("deletionGuard")
    if guard and not guard["approved"]:
        notes.append(f"deletion guard: {guard['count']} deletions, id {guard['id']}")
    elif guard:
        notes.append(f"deletion guard {guard['id']} approved: {guard['count']} deletions to go")
    if row.get("kept"):
        notes.append(f"{row['kept']} objects kept that should go")
    if row.get("rules"):
        notes.append("rules that cannot be read")
    return "; ".join(notes)


def _print_one(row: dict[str, Any]) -> None:
    _print_table([row])
    if row.get("rules"):
        click.echo(f"rules    {row['rules']}")
    for name, policy in row.get("delivery", {}).items():
        click.echo(f"delivery {name}: {policy}")
    for pending in row.get("pendingObjects", []):
        click.echo(f"pending  {pending['key']}: {pending['step']}")
    for parked in row.get("parkedObjects", []):
        click.echo(f"parked   {parked['key']}: {parked['code']}: {parked['reason']} ({parked['retries']} retries)")
    for kept in row.get("keptObjects", []):
        click.echo(f"kept     {kept['key']}: {kept['reason']}")
