"""`fairlead topics`: lists, creates, reads, writes and inspects topics."""

from __future__ import annotations

import difflib
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli import parameters
from fairlead_cli.clients import messaging_client
from fairlead_cli.clients.messaging_client import output, service, topic
from fairlead_cli.commands.messaging.replay import replay
from fairlead_cli.commands.messaging.subscriptions import subscriptions
from fairlead_cli.commands.messaging.tail import tail
from fairlead_cli.commands.messaging.transactions import transactions
from fairlead_cli.default_command import DefaultCommand
from fairlead_cli.output import printer, topic_lines
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.tables import OutputColumn, TableView
from fairlead_cli.output.topic_lines import print_json, print_messages
from fairlead_cli.text import quantities
from fairlead_wire import durations, event

if TYPE_CHECKING:
    from fairlead_messaging.client.io.sync_client import Client
    from fairlead_wire.delivery_policy import DeliveryPolicy


SYSTEM = "system"
PUBLISH_MESSAGES = 1000
"""Most lines of standard input in one request."""
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def register(root: click.Group) -> None:
    """Add `topics` to the root command."""
    root.add_command(topics)


@click.group(cls=DefaultCommand, short_help="List, create, read, write and inspect topics.")
@messaging_client.options
def topics() -> None:
    """Create, read, write and inspect topics. A topic is NAMESPACE/NAME; a plain NAME is in namespace `default`.

    Without a command: list.

    \b
    Create, write, read:       fairlead topics create orders --ttl 86400
                               echo '{"order": 1}' | fairlead topics publish orders
                               fairlead topics tail -f orders
    Find slow readers:         fairlead topics lag orders
                               fairlead topics transactions list
                               fairlead topics transactions invalidate POINTER
    Show every row:            fairlead topics inspect orders
    Copy into another topic:   fairlead topics replay orders orders-again --from 2h
    With mutual TLS:           fairlead topics --config ingest.toml list

    The connection options may stand before or after the command's name.

    -o json prints one JSON value, or one object per line for messages and rows, with payloads in base64.
    """


topics.add_command(replay)
topics.add_command(subscriptions)
topics.add_command(tail)
topics.add_command(transactions)


@topics.command()
@topic
@click.option("--ttl", help="Time to live of messages in seconds; default: the service's.")
@click.option("-p", "--property", "pairs", multiple=True, metavar="KEY=VALUE", help="A property; may be repeated.")
@click.option(
    "--delivery",
    type=parameters.Policy(),
    help="Delivery policy of subscriptions without their own. See `fairlead backoff schedule`.",
)
@output
@click.pass_context
def create(
    context: click.Context,
    topic: tuple[str, str],
    ttl: str | None,
    pairs: tuple[str, ...],
    delivery: DeliveryPolicy | None,
    output: str,
) -> None:
    """Create a topic; exit 1 if it exists.

    The property `transactional` is `allowed` (default), `required` or `refused`; `hold_up_seconds_max` limits how long
    an open transaction may hold up readers of committed messages; other properties are stored without effect.

    \b
    fairlead topics create orders --ttl 86400
    fairlead topics create orders --delivery '{"maximum_delay": 300, "ignore_subscription_override": true}'
    """
    properties = _properties(ttl, pairs)
    with service(context) as client:
        created = client.create_topic(*topic, properties, delivery=delivery)
    if output == "json":
        print_json({"created": created})
    elif created:
        click.echo(f"{'/'.join(topic)} created")
    if not created:
        click.echo(f"Error: {'/'.join(topic)} exists", err=True)
        sys.exit(1)


@topics.command(short_help="Replace a topic's properties.")
@topic
@click.option("--ttl", help="Time to live of messages in seconds.")
@click.option("-p", "--property", "pairs", multiple=True, metavar="KEY=VALUE", help="A property; may be repeated.")
@click.option(
    "--delivery",
    type=parameters.Policy(),
    help="Delivery policy of subscriptions without their own. See `fairlead backoff schedule`.",
)
@click.pass_context
def update(
    context: click.Context,
    topic: tuple[str, str],
    ttl: str | None,
    pairs: tuple[str, ...],
    delivery: DeliveryPolicy | None,
) -> None:
    """Replace all properties of a topic; properties that are not given return to their defaults.

    A changed delivery policy applies at once, also to messages that are being retried.
    """
    with service(context) as client:
        client.update_topic(*topic, _properties(ttl, pairs), delivery=delivery)
    click.echo(f"{'/'.join(topic)} updated")


@topics.command(short_help="Delete a topic and everything in it.")
@topic
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def delete(context: click.Context, topic: tuple[str, str], yes: bool) -> None:
    """Delete a topic and everything in it, immediately and permanently.

    If the topic holds messages, or belongs to Fairlead, the command asks for confirmation; without a terminal it
    requires --yes. Topics in namespace `system` are Fairlead's own: they hold events and messages on their way to
    modules.
    """
    name = "/".join(topic)
    with service(context) as client:
        if not yes and (harm := _harm(client, topic)):
            if not _is_asked():
                raise click.UsageError(f"{harm}; to delete it all the same, run it again with --yes")
            if not click.confirm(f"{harm}. Delete it?", err=True):
                click.echo("not deleted; nothing was changed", err=True)
                sys.exit(1)
        client.delete_topic(*topic)
    click.echo(f"{name} deleted")


def _harm(client: Client, topic: tuple[str, str]) -> str:
    """What deleting the topic destroys; "" if nothing.  Fails if there is no such topic."""
    from fairlead_messaging.client.errors import NotAllowed

    name = "/".join(topic)
    client.topic(*topic)
    if event.is_reserved(name):
        return f"{name} is Fairlead's own topic: what is in it is lost, and its readers miss it"
    try:
        held = client.plan(*topic, after="", splits=1).rows
    except NotAllowed:
        return f"{name} may hold messages (you may not read it): deleting it loses them"
    return f"{name} holds {quantities.of(held, 'message')}: deleting it loses them" if held else ""


def _is_asked() -> bool:
    """There is a person to ask."""
    return sys.stdin.isatty()


@topics.command()
@topic
@output
@click.pass_context
def show(context: click.Context, topic: tuple[str, str], output: str) -> None:
    """Show the properties of a topic."""
    with service(context) as client:
        properties = client.topic(*topic)
    if output == "json":
        print_json({"name": topic[1], "properties": properties})
    else:
        for key, value in sorted(properties.items()):
            click.echo(f"{key}: {json.dumps(value) if isinstance(value, dict) else value}")


@topics.command(short_help="Publish texts, or lines of standard input.")
@topic
@click.argument("payloads", nargs=-1)
@click.option("--ttl", type=int, help="Time to live of these messages in seconds.")
@click.pass_context
def publish(context: click.Context, topic: tuple[str, str], payloads: tuple[str, ...], ttl: int | None) -> None:
    """Publish texts as messages, or without any, each line of standard input. They are durable once it exits with 0.

    \b
    fairlead topics publish orders '{"order": 1}' '{"order": 2}'
    """
    count = 0
    waiting: list[bytes] = []
    lines = (
        (payload.encode() for payload in payloads) if payloads else (line.rstrip(b"\n") for line in sys.stdin.buffer)
    )
    with service(context) as client, messaging_client.to_existing(topic):
        for line in lines:
            waiting.append(line)
            if len(waiting) == PUBLISH_MESSAGES:
                client.publish(*topic, waiting, ttl_seconds=ttl)
                count, waiting = count + len(waiting), []
        if waiting:
            client.publish(*topic, waiting, ttl_seconds=ttl)
    count += len(waiting)
    if not count:
        raise click.UsageError("nothing to publish")
    click.echo(f"{count} published")


@topics.command(short_help="Read one page of messages.")
@topic
@click.option(
    "--from",
    "start",
    type=parameters.PlaceParameter(),
    help=f"Begin here; default: the oldest message. {parameters.PLACE_HELP}",
)
@click.option("--limit", type=click.IntRange(1), help="At most this many messages.")
@click.option("--committed", is_flag=True, help="Only committed messages; stop at the first undecided one.")
@output
@click.pass_context
def poll(
    context: click.Context,
    topic: tuple[str, str],
    start: str | int | None,
    limit: int | None,
    committed: bool,
    output: str,
) -> None:
    """Read one page of messages; the position of the next page is printed to standard error."""
    with service(context) as client:
        page = client.poll(*topic, start_from=start, limit=limit, read_committed=committed)
    print_messages(page.messages, output)
    if not page.messages:
        topic_lines.say_none(f"no messages in {'/'.join(topic)}{' from there on' if start is not None else ''}")
    click.echo(f"next position: {page.next_position}", err=True)


@topics.command(short_help="Show every row and its state; nothing is consumed.")
@topic
@click.option("--after", default="", help="A message id (hex): only messages after it.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@click.option("--state", type=click.Choice(["visible", "undecided", "hidden", "expired"]), help="Only these rows.")
@output
@click.pass_context
def inspect(
    context: click.Context, topic: tuple[str, str], after: str, limit: int, state: str | None, output: str
) -> None:
    """Show every row and its state, including rows that readers skip or wait for; nothing is consumed.

    \b
    visible    readers get it
    undecided  its transaction is open: readers of committed messages stop here
    hidden     rolled back, or its transaction was aborted or invalidated
    expired    its own time to live has passed
    """
    with service(context) as client:
        rows = client.inspect(*topic, after=after, limit=limit)
    rows = [row for row in rows if state in (None, row.state)]
    if not rows and output == "text":
        topic_lines.say_none(f"no {state or ''} rows in {'/'.join(topic)}".replace("  ", " "))
    for row in rows:
        if output == "json":
            print_json(row)
        else:
            by = f"  transaction {row.transaction}" if row.transaction else ""
            topic_lines.print_line(
                f"{topic_lines.moment(row.published_ms)}  {row.id}  {row.state:<9}{by}  "
                f"{topic_lines.shown(row.payload)}"
            )


@topics.command(short_help="Show how far each named reader is behind.")
@topic
@output
@click.pass_context
def lag(context: click.Context, topic: tuple[str, str], output: str) -> None:
    """Show how far each named reader is behind, and whether an open transaction holds them up.

    A reader is a program that reports its position to the service, as ingest jobs do after each commit.
    """
    with service(context) as client:
        readers = client.readers(*topic)
        held_by = client.plan(*topic, after="", limit_rows=1).held_by
        holding = [each for each in client.transactions() if each.transactionWritePointer == held_by]
    if output == "json":
        print_json(readers)
        return
    if not readers:
        topic_lines.say_none(f"no reader has reported its position in {'/'.join(topic)}")
    for reader in readers:
        click.echo(
            f"{reader.name}: {quantities.of(reader.lag_messages, 'message')},"
            f" {durations.span(reader.lag_seconds)} behind; "
            f"last reported {topic_lines.moment(reader.updated_ms)}"
        )
    if held_by is not None:
        now_ms, name = time.time() * 1000, "/".join(topic)
        spans = [
            f" for {durations.span((now_ms - held.since) / 1000)}; "
            f"it ends by itself in {durations.span((min(held.until, each.expires) - now_ms) / 1000)}"
            " unless it is renewed"
            f" (in {durations.span((held.until - now_ms) / 1000)} at the latest)"
            for each in holding
            for held in each.topics
            if held.topic == name
        ]
        click.echo(f"readers of committed messages wait for transaction {held_by}{''.join(spans)}", err=True)


EFFECTIVE = ("ttl", "transactional", "hold_up_seconds_max", "delivery")
"""The properties that the service obeys."""


def _properties(ttl: str | None, pairs: tuple[str, ...]) -> dict[str, str | int]:
    properties: dict[str, str | int] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--property")
        if key not in EFFECTIVE and (meant := difflib.get_close_matches(key, EFFECTIVE, n=1)):
            click.echo(
                f"fairlead topics: property {key!r} is stored without effect; did you mean {meant[0]}?", err=True
            )
        properties[key] = value
    if ttl is not None:
        properties["ttl"] = ttl
    return properties


# ── fairlead topics list ──────────────────────────────────────────────────────────────────────────────────────────────


@topics.command("list")
@click.option("-n", "--namespace", default="default", show_default=True, help="The namespace to list.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Topics of every namespace, as NAMESPACE/NAME.")
@printer.options()
@click.pass_context
def list_(context: click.Context, namespace: str, all_namespaces: bool, shown: Printer) -> None:
    """List the topics in a namespace; Fairlead's own are in `system`.

    -o wide also shows what is stored in each topic, and its readers; -o json and yaml have only the names.
    """
    facts = []
    with messaging_client.service(context) as client:
        namespaces = client.namespaces() if all_namespaces else [namespace]
        places = [(each, name) for each in namespaces for name in client.topics(each)]
        is_asked = shown.form.name == "text" and not all_namespaces and namespace == "default"
        others = _others(client, namespace) if is_asked else 0
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
    elif others:
        click.echo(f"more in {quantities.of(others, 'other namespace')}: -A", err=True)


def _others(client: Client, namespace: str) -> int:
    """How many other namespaces there are; 0 also if the service does not say."""
    from fairlead_wire.errors import FairleadError

    try:
        return sum(each != namespace for each in client.namespaces())
    except FairleadError:
        return 0


def facts_of(client: Client, place: tuple[str, str]) -> dict[str, Any]:
    """The size of a topic, and the lag of its readers."""
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
    """The lag of the slowest reader."""
    if row["slowestReader"] is None:
        return "-"
    return (
        f"{row['slowestReader']}: {quantities.of(row['lagMessages'], 'message')}, {durations.span(row['lagSeconds'])}"
    )


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


messaging_client.accept_after(topics)
