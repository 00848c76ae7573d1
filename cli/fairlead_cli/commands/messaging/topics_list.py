"""`fairlead topics list`: names, and with -o wide how much is in them and how far their readers are behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.clients import messaging_client
from fairlead_cli.output import printer, topic_lines
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.tables import OutputColumn, TableView
from fairlead_cli.text import counts
from fairlead_wire import durations

if TYPE_CHECKING:
    from fairlead_messaging.client.io.sync_client import Client

SYSTEM = "system"


@click.command("list")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespaces need not be created.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace, as NAMESPACE/NAME.")
@printer.options()
@click.pass_context
def list_(context: click.Context, namespace: str, all_namespaces: bool, shown: Printer) -> None:
    """Names of the topics in a namespace. Fairlead's own are in `system`.

    With -o wide also what is stored in each, and its readers; -o json and yaml have the names alone.
    """
    facts = []
    with messaging_client.service(context) as client:
        namespaces = client.namespaces() if all_namespaces else [namespace]
        places = [(each, name) for each in namespaces for name in client.topics(each)]
        if shown.is_wide:
            facts = [facts_of(client, place) for place in places]
    names = [f"{each}/{name}" if all_namespaces else name for each, name in places]
    if shown.is_wide:
        shown.items(VIEW, facts)
    elif shown.form.name in ("text", "name"):
        for name in names:
            click.echo(name)
    elif shown.form.name == "json":
        topic_lines.print_json(names)
        return
    else:
        shown.document(names)
        return
    if not names:
        where = "here" if all_namespaces else f"in namespace {namespace}; -A shows all namespaces"
        topic_lines.say_none(f"no topics {where}")


def facts_of(client: Client, place: tuple[str, str]) -> dict[str, Any]:
    """What is stored in one topic, and how its readers stand."""
    properties = client.topic(*place)
    stored = client.plan(*place, after="", splits=1)
    readers = client.readers(*place)
    slowest = max(readers, key=lambda reader: reader.lag_seconds, default=None)
    return {
        "namespace": place[0],
        "topic": place[1],
        "ttlSeconds": properties.get("ttl"),
        "messages": stored.rows,
        "bytes": stored.bytes,
        "readers": len(readers),
        "slowestReader": slowest.name if slowest else None,
        "lagMessages": slowest.lag_messages if slowest else 0,
        "lagSeconds": slowest.lag_seconds if slowest else 0.0,
        "heldByTransaction": stored.held_by,
    }


def behind(row: dict[str, Any]) -> str:
    """How far its slowest reader is behind."""
    if row["slowestReader"] is None:
        return "-"
    return f"{row['slowestReader']}: {counts.of(row['lagMessages'], 'message')}, {durations.span(row['lagSeconds'])}"


VIEW = TableView(
    kind="topic",
    name=lambda row: f"{row['namespace']}/{row['topic']}",
    columns=(
        OutputColumn("NAMESPACE", lambda row: row["namespace"]),
        OutputColumn("TOPIC", lambda row: row["topic"]),
        OutputColumn("MESSAGES", lambda row: row["messages"]),
        OutputColumn("BYTES", lambda row: row["bytes"]),
        OutputColumn("TTL", lambda row: row["ttlSeconds"]),
        OutputColumn("READERS", lambda row: row["readers"]),
        OutputColumn("SLOWEST READER BEHIND", behind),
        OutputColumn("WAITS FOR TRANSACTION", lambda row: row["heldByTransaction"]),
    ),
)
