"""`fairlead edge status`: shows the link, objects, queues and retry policies of one agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairlead_cli.clients import edge_client
from fairlead_cli.output import printer, tables
from fairlead_cli.output.printer import Printer
from fairlead_cli.text import printable, quantities
from fairlead_wire import durations
from fairlead_wire.validation.route_manifest import priority_shown

HEADS = ("ENDPOINT", "PRIORITY", "LENGTH", "BYTES", "OLDEST", "SENT", "EXPIRED", "DEAD LETTERS", "STALLED")
QUEUES = tables.of_tuples("queue", *HEADS)


def register(root: click.Group) -> None:
    """Add `status` to `edge`."""
    edge = root.commands["edge"]
    assert isinstance(edge, click.Group)
    edge.add_command(status)


@click.command(short_help="Show the link, the queues and the delivery policies of one agent.")
@edge_client.options
@printer.options(printer.DOCUMENTS)
def status(url: str, token_file: Path | None, shown: Printer) -> None:
    """Show the current state of one agent, also without a connection to its hub.

    \b
    fairlead edge status
    fairlead edge status --token-file /var/lib/fairlead-edge/token -o json
    """
    from fairlead_wire.errors import FairleadError

    client = edge_client.client(url, token_file)
    try:
        found = client.status()
    except FairleadError as error:
        raise edge_client.failed(error) from None
    if not shown.is_for_people:
        shown.document(found)
        return
    try:
        lines, queues = _lines(found), [_queue(each) for each in found["queues"]]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise click.ClickException(f"{url} is not an agent of this version: {error!r} in its answer") from None
    click.echo("\n".join(map(printable.one_line, lines)))
    if queues:
        click.echo()
        shown.items(QUEUES, queues)


def _lines(found: dict[str, Any]) -> list[str]:
    link, objects, store = found["link"], found["objects"], found["store"]
    state = link["state"] + (f" to {link['hub']}" if link["hub"] else "")
    why = f": {link['reason']}" if link["reason"] else ""
    if (seconds := link.get("followsInSeconds")) is not None:
        why += f", and is accepted in {durations.span(seconds)}"
    contact = link["lastContactSeconds"]
    heard = "never" if contact is None else f"{durations.span(contact)} ago"
    lines = [
        f"node      {found['node']}, agent {found['agent']}",
        f"link      {state}{why}; hub last heard {heard}",
        *_plan(link.get("plan")),
        f"objects   {objects['held']} held, {_of_limit(objects)}",
        f"messages  {_of_limit(store)}, {_dead_letters(found)}",
    ]
    if store.get("diskFull"):
        lines.append("disk      full: publishing is refused (507); free some space, or wait until messages are sent")
    lines += [f"delivery  {name}: {policy['summary']}" for name, policy in found["delivery"].items()]
    lines += [quantities.line(each) for each in found["toTable"]]
    for name, routes in sorted(found["routes"].items()):
        refused = f", {len(routes['errors'])} refused" if routes.get("errors") else ""
        lines.append(f"routes    {name}: {len(routes['accepted'])} run{refused}")
    if not found["routes"]:
        lines.append("routes    none: no EdgeRoutes object selects this node, or none has arrived from the hub yet")
    return lines


def _dead_letters(found: dict[str, Any]) -> str:
    count, refused = found["deadLetters"], found.get("refusedInput", {"deadLetters": 0})
    said = quantities.of(count, "dead letter")
    if not refused["deadLetters"]:
        return said
    return f"{said}, of these {refused['deadLetters']} refused input ({_of_limit(refused)})"


def _of_limit(used: dict[str, Any]) -> str:
    return f"{quantities.size(used['bytes'])} of {quantities.size(used['maxBytes'])}"


def _plan(plan: dict[str, Any] | None) -> list[str]:
    """The line about the data plan; older agents have none."""
    if plan is None:
        return []
    limit = plan["bytesPerDay"]
    of_limit = "" if limit is None else f" of {quantities.traffic(limit)}"
    used_up = ""
    if plan["usedUp"]:
        is_all = plan["bytesToday"] >= limit
        how_far = "used up" if is_all else "nine tenths used: only priority 0 is sent"
        used_up = f", {how_far}; sending resumes in {durations.span(plan['nextDaySeconds'])}"
    rate = ""
    if plan["bytesPerSecond"] is not None:
        rate = f", messages at {quantities.traffic(plan['bytesPerSecond'])}/s at most"
    return [f"traffic   {quantities.traffic(plan['bytesToday'])}{of_limit} today{used_up}{rate}"]


def _queue(queue: dict[str, Any]) -> tuple[Any, ...]:
    return (
        queue["endpoint"],
        f"{priority_shown(queue['priority'])} {queue.get('lane', '')}".strip(),
        queue["length"],
        queue["bytes"],
        durations.span(queue["oldestAgeSeconds"]) if queue["length"] else "-",
        queue["sent"],
        queue["expired"],
        queue["deadLettered"],
        _stalled(queue),
    )


def _stalled(queue: dict[str, Any]) -> str:
    """Why nothing is sent from the queue, or from some of its topics."""
    if (stalled := queue["stalled"]) is not None:
        return f"{stalled['code']}: {stalled['reason']}"
    if queue["deferredTopics"]:
        return "; ".join(f"topic {each['topic']}: {each['code']}: {each['reason']}" for each in queue["deferredTopics"])
    held = queue.get("held")
    return held["reason"] if held else "-"
