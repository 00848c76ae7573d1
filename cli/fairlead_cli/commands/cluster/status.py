"""`fairlead status`: shows nodes, their lag, and parked objects."""

from __future__ import annotations

import operator
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from fairlead_cli.clients import hub_client
from fairlead_cli.cluster import names, node_table
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.target import Target
from fairlead_cli.doctor.cluster import hub_lease
from fairlead_cli.doctor.cluster.hub_lease import LeaseLine
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer
from fairlead_cli.text import printable, quantities
from fairlead_wire import durations
from fairlead_wire.objects import api_group, resource

VIEW = node_table.view(node_table.of_row)


def register(root: click.Group) -> None:
    """Add `status` to the root command."""
    root.add_command(status)


@click.command(short_help="Show the state and the problems of all nodes, or of one.")
@click.argument("node", required=False, shell_complete=names.nodes)
@printer.watch_option
@targets.options(selector=True)
@hub_client.options
@printer.options()
def status(node: str | None, watch: bool, hub: str | None, config: Path | None, target: Target, shown: Printer) -> None:
    """Show all nodes, or one NODE in detail.

    The table is that of `fairlead nodes` (-o wide adds columns), followed by the problems of each node. With --hub (or
    a hub's --config) it shows what is pending right now, otherwise what the API objects record. With NODE it also shows
    how long messages take from the node to a table; without --hub these times may be three minutes old.

    \b
    fairlead status
    fairlead status edge-1 --hub http://127.0.0.1:10002 -o yaml
    fairlead status -l zone=eu -o jsonpath='{.nodes[?(@.connected==false)].node}'
    """
    url = hub_client.hub_url(hub, config)
    if url and target.selector:
        raise click.UsageError("-l needs the cluster's labels, which the hub does not have: omit --hub and --config")

    lease = hub_lease.LeaseLine()

    def found() -> dict[str, Any]:
        if url is None:
            return _surveyed(target, lease)
        return hub_client.ask(url, "/v1/nodes", expected="nodes")

    with hub_client.readable(url):
        if watch:
            shown.follow(VIEW, _followed(found, node, shown))
        elif node is None:
            _show_all(found(), shown)
        else:
            path = f"/v1/nodes/{urllib.parse.quote(node, safe='')}"
            _show_one(hub_client.ask(url, path, expected="node") if url else _one(found(), node), shown)


def _followed(found: Callable[[], dict[str, Any]], node: str | None, shown: Printer) -> Iterator[list[dict[str, Any]]]:
    """Rows that changed; below them, once, each line about hubs and rules that was not there before."""
    last: dict[str, Any] = {}

    def rows() -> list[dict[str, Any]]:
        last.update(found())
        return _only(last["nodes"], node)

    said: set[str] = set()
    for page in printer.changed_rows(rows, operator.itemgetter("node")):
        yield page
        lines = list(_rule_problems(last)) if node is None and shown.is_for_people else []
        for line in lines:
            if line not in said:
                _say(line)
        said = set(lines)


def _surveyed(target: Target, lease: LeaseLine) -> dict[str, Any]:
    from fairlead_hub.io import offline_report
    from fairlead_hub.io.cluster.kube import Kube

    async def asked(kube: Kube) -> dict[str, Any]:
        await lease.warn(kube)
        nodes, parked = await offline_report.nodes(kube, target.selector), await offline_report.parked(kube)
        if target.selector:
            names = {row["node"] for row in nodes}
            parked = [record for record in parked if record["node"] in names]
        troubled = await offline_report.troubled(kube)
        unreadable = await offline_report.unreadable(kube)
        return {"nodes": nodes, "parked": parked, "unreadable": unreadable, "troubled": troubled}

    return target.ask(asked)


def _only(rows: list[dict[str, Any]], node: str | None) -> list[dict[str, Any]]:
    return rows if node is None else [row for row in rows if row["node"] == node]


def _one(found: dict[str, Any], node: str) -> dict[str, Any]:
    for row in found["nodes"]:
        if row["node"] == node:
            mine = [record for record in found["parked"] if record["node"] == node]
            return {**row, "parkedObjects": [_parked(record) for record in mine]}
    raise click.ClickException(api_group.no_edge_node(node, (row["node"] for row in found["nodes"])))


def _parked(record: dict[str, Any]) -> dict[str, Any]:
    place = "/".join(filter(None, (record["kind"], record["namespace"], record["object_name"])))
    return {"key": place, "code": record["reason"], "reason": record["reason"], "retries": record["retries"]}


def _show_all(found: dict[str, Any], shown: Printer) -> None:
    if not shown.is_for_people and shown.form.name != "name":
        shown.document(found)
        return
    rows = found["nodes"]
    if rows:
        shown.items(VIEW, rows)
    elif shown.is_for_people:
        click.echo("no edge Nodes: label one with node-role.kubernetes.io/edge=")
    if shown.is_for_people:
        _print_problems(found)


def _print_problems(found: dict[str, Any]) -> None:
    for row in found["nodes"]:
        for note in _notes(row):
            _say(f"{row['node']}: {note}")
    for line in _rule_problems(found):
        _say(line)
    for record in found.get("parked", []):
        parked = _parked(record)
        _say(f"parked at {record['node']}: {parked['key']}: {parked['reason']}")
    for stale in found.get("stale", []):
        _say(f"stale since {stale['since']}: {stale['collection']}: {stale['reason']}")
    refused = found.get("recordsRefused") or {"count": 0}
    if refused["count"]:
        _say(f"{quantities.of(refused['count'], 'record')} refused since {refused['since']}: {refused['reason']}")


def _rule_problems(found: dict[str, Any]) -> Iterator[str]:
    for rule in found.get("unreadable", []):
        yield f"{rule['kind']} {rule['name']} cannot be read: {rule['reason']}; {rule['consequence']}"
    for rule in found.get("troubled", []):
        yield f"{rule['kind']} {rule['name']}: {rule['reason']}"


def _notes(row: dict[str, Any]) -> Iterator[str]:
    """The problems of this node, one sentence each."""
    from fairlead_hub.delivery import deletion_guard

    if row.get("nodeDeleted"):
        yield str(row["nodeDeleted"])
    if row.get("lagSeconds"):
        yield f"{row['pending']} pending, the oldest for {durations.span(row['lagSeconds'])}"
    if row.get("paused"):
        yield f"paused: {row['paused']}"
    if row.get("identity") == "Revoked":
        yield "its certificate is revoked"
    elif row.get("identity") == "Held":
        yield f"its certificate is held; approve it: fairlead node approve {row['node']}"
    if (fence := row.get("obeyedFence")) is not None:
        what = f"refused: it has obeyed fencing number {fence}, which is higher than the hub's"
        yield f"{what}; it will accept the hub by itself, or at once after: fairlead node approve {row['node']}"
    guard = row.get("deletionGuard")
    if guard and not guard["approved"]:
        stopped = quantities.of(guard["count"], "deletion")
        yield f"deletion guard: {stopped} stopped: {deletion_guard.remedy(row['node'])}"
    elif guard:
        yield f"deletion guard {guard['id']} approved: {quantities.of(guard['count'], 'deletion')} to go"
    if row.get("kept"):
        unknown = row.get("keptUnknown", 0)
        if unknown:
            why = f" ({row['keptUnknownReason']})" if row.get("keptUnknownReason") else ""
            what = quantities.of(unknown, "object")
            yield f"it is unknown whether {what} are still wanted{why}; they are kept, do not delete them by hand"
        if row["kept"] > unknown:
            yield f"{row['kept'] - unknown} kept although no longer wanted"
    if row.get("rules"):
        yield str(row["rules"])


def _show_one(row: dict[str, Any], shown: Printer) -> None:
    if not shown.is_for_people:
        shown.one(VIEW, row)
        return
    shown.items(VIEW, [row])
    for note in _notes(row):
        _say(f"note     {note}")
    for name, policy in row.get("delivery", {}).items():
        _say(f"delivery {name}: {policy}")
    for each in row.get("toTable", []):
        _say(quantities.line(each))
    for pending in row.get("pendingObjects", []):
        _say(f"pending  {resource.shown(pending['key'])}: {pending['step']}")
    for parked in row.get("parkedObjects", []):
        retries = quantities.of(parked["retries"], "retry", "retries")
        _say(f"parked   {resource.shown(parked['key'])}: {parked['code']}: {parked['reason']} ({retries})")
    for kept in row.get("keptObjects", []):
        _say(f"kept     {resource.shown(kept['key'])}: {kept['reason']}")


def _say(line: str) -> None:
    """Print a line that may contain a node's own text."""
    click.echo(printable.one_line(line))
