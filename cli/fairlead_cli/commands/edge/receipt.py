"""`fairlead edge receipt`: shows where a message is that this node accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairlead_cli.clients import edge_client
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer
from fairlead_cli.text import printable
from fairlead_wire import durations
from fairlead_wire.validation.route_manifest import priority_shown

WAIT_SECONDS_MAX = 60.0
ENDED = {"expired": "its time to live ended here", "evicted": "it was evicted for more urgent messages"}
NOT_KNOWN = (
    "the agent does not know {id}: it was not accepted, matched no route, or was sent too long ago;"
    " to look for its row, ask the ingest job: fairlead ingest receipt {id}"
)


def register(root: click.Group) -> None:
    """Add `receipt` to `edge`."""
    edge = root.commands["edge"]
    assert isinstance(edge, click.Group)
    edge.add_command(receipt)


@click.command(short_help="Show where a message is: on this node, in its topic, or in a table.")
@click.argument("id")
@click.option(
    "--wait",
    type=click.FloatRange(0, WAIT_SECONDS_MAX),
    default=0.0,
    metavar="SECONDS",
    help="How long to wait, in seconds, at most 60.",
)
@click.option(
    "--until",
    type=click.Choice(["in_topic", "in_table"]),
    default="in_table",
    show_default=True,
    help="State to wait for, which exit code 0 then confirms.",
)
@edge_client.options
@printer.options(printer.DOCUMENTS)
def receipt(id: str, wait: float, until: str, url: str, token_file: Path | None, shown: Printer) -> None:
    """Show where the message with this ID (returned when it was published) is.

    Without a connection to the hub, the latest known state is shown. Exit 0 if the message has reached --until, else 1.

    \b
    fairlead edge receipt 9f86d081884c7d659a2feaa0c55ad015
    fairlead edge receipt 9f86d081884c7d659a2feaa0c55ad015 --wait 30 --until in_topic -o json
    """
    from fairlead_wire.errors import FairleadError

    client = edge_client.client(url, token_file)
    try:
        found = client.receipt(id, wait_seconds=wait, until="in_topic" if until == "in_topic" else "in_table")
    except FairleadError as error:
        raise edge_client.failed(error) from None
    if found is None:
        raise click.ClickException(NOT_KNOWN.format(id=id))
    if shown.is_for_people:
        try:
            lines = _lines(found)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise click.ClickException(f"{url} is not an agent of this version: {error!r} in its answer") from None
        click.echo("\n".join(map(printable.one_line, lines)))
    else:
        shown.document(found)
    if found.get("state") not in (until, "in_table"):
        raise click.exceptions.Exit(1)


def _lines(found: dict[str, Any]) -> list[str]:
    age = found["accepted"]["age_seconds"]
    since = f", accepted {durations.span(age)} ago" if age is not None else ""
    lines = [f"message   {found['id']}: {found['state']}{since}"]
    for each in found["deliveries"]:
        lines += [
            f"{each['endpoint']:9} priority {priority_shown(each['priority'])}: {line}" for line in _delivery(each)
        ]
    told = found["as_of"] or "never"
    lines.append(f"tables    as the hub said at {told}" + ("" if found["online"] else "; it cannot be asked now"))
    return lines


def _delivery(each: dict[str, Any]) -> list[str]:
    state = each["state"]
    if state == "accepted":
        left = each.get("expires_in_seconds")
        until = f", expires in {durations.span(left)}" if left is not None else ""
        way = "on its way" if each.get("in_flight") else f"waits, {each.get('ahead', 0)} before it"
        return [f"{way}{until}"]
    if state == "dead_lettered":
        letter = each["dead_letter"]
        return [f"dead letter {letter['number']}: {letter['code']}: {letter['reason']}"]
    if state in ENDED:
        return [f"{state}: {ENDED[state]}"]
    place = each["in_topic"]
    where = f" at {'' if place['exact'] else 'or before '}{place['position']}" if place["position"] else ""
    lines = [f"in topic {place['topic']}{where}"]
    for table in each.get("tables", ()):
        read = "read, and has a row" if table["row"] else "read" if table["in_table"] else "not read yet"
        batch = f" (batch {table['batch']} or before)" if table["in_table"] and table["batch"] is not None else ""
        lines.append(f"table {table['table']} of {table['reader']}: {read}{batch}")
    if each.get("note"):
        lines.append(each["note"])
    return lines
