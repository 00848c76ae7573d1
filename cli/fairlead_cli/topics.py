"""`fairlead topics`: what is in messaging, for people and scripts."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from fairlead_messaging.io.client import MessagingClient, Page

DEFAULT_URL = "http://127.0.0.1:11015"
FOLLOW_WAIT_MS = 10_000
PAYLOAD_CHARS_MAX = 100
REPLAY_PAGE = 500

Result = TypeVar("Result")


def register(root: click.Group) -> None:
    """Add `topics` to the root command."""
    root.add_command(topics)


@click.group(short_help="Create, read, write and inspect topics.")
@click.option("--url", default=DEFAULT_URL, show_default=True, envvar="FAIRLEAD_MESSAGING_URL", help="The service.")
@click.option("--ca", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Who signed the service.")
@click.option("--cert", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Our certificate.")
@click.option("--key", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Our key.")
@click.pass_context
def topics(context: click.Context, url: str, ca: Path | None, cert: Path | None, key: Path | None) -> None:
    """Create, read, write and inspect topics. A topic is NAMESPACE/NAME; a bare NAME lies in `default`."""
    context.obj = (url, ca, cert, key)


class TopicName(click.ParamType[tuple[str, str]]):
    """NAMESPACE/NAME, or NAME in `default`."""

    name = "topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        namespace, slash, name = str(value).rpartition("/")
        if not name or (slash and not namespace):
            self.fail("write NAMESPACE/NAME or NAME", param, ctx)
        return namespace or "default", name


output = click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of the output.")
topic = click.argument("topic", type=TopicName())


def _run(context: click.Context, act: Callable[[MessagingClient], Awaitable[Result]]) -> Result:
    """Call the service once; a refusal or an unreachable service becomes one sentence and exit status 1."""
    from fairlead_messaging.io.client import MessagingClient
    from fairlead_wire.errors import FairleadError

    url, ca, cert, key = context.obj

    async def call() -> Result:
        tls_context = None
        if url.startswith("https:"):
            if not (ca and cert and key):
                raise click.UsageError("https needs --ca, --cert and --key")
            from fairlead_wire.io import tls

            tls_context = tls.client_context(tls.Files(ca=ca, cert=cert, key=key))
        async with MessagingClient(url, ssl_context=tls_context) as client:
            return await act(client)

    try:
        return asyncio.run(call())
    except FairleadError as error:
        click.echo(f"fairlead topics: {error}", err=True)
        sys.exit(1)


def _json(value: object) -> None:
    click.echo(json.dumps(value))


@topics.command("list")
@click.option("-n", "--namespace", default="default", show_default=True)
@output
@click.pass_context
def list_(context: click.Context, namespace: str, output: str) -> None:
    """Names of the topics in a namespace."""
    names = _run(context, lambda client: client.topics(namespace))
    if output == "json":
        _json(names)
    else:
        for name in names:
            click.echo(name)


@topics.command()
@topic
@click.option("--ttl", help="Seconds a message lives.")
@click.option("-p", "--property", "pairs", multiple=True, metavar="KEY=VALUE", help="A property; may be repeated.")
@output
@click.pass_context
def create(
    context: click.Context, topic: tuple[str, str], ttl: str | None, pairs: tuple[str, ...], output: str
) -> None:
    """Create a topic; exit 1 when it exists."""
    properties: dict[str, str | int] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--property")
        properties[key] = value
    if ttl is not None:
        properties["ttl"] = ttl
    created = _run(context, lambda client: client.create_topic(*topic, properties))
    if output == "json":
        _json({"created": created})
    elif created:
        click.echo(f"{'/'.join(topic)} created")
    if not created:
        click.echo(f"fairlead topics: {'/'.join(topic)} exists", err=True)
        sys.exit(1)


@topics.command()
@topic
@click.pass_context
def delete(context: click.Context, topic: tuple[str, str]) -> None:
    """Delete a topic and everything in it."""
    _run(context, lambda client: client.delete_topic(*topic))
    click.echo(f"{'/'.join(topic)} deleted")


@topics.command()
@topic
@output
@click.pass_context
def show(context: click.Context, topic: tuple[str, str], output: str) -> None:
    """Properties of a topic."""
    properties = _run(context, lambda client: client.topic(*topic))
    if output == "json":
        _json({"name": topic[1], "properties": properties})
    else:
        for key, value in sorted(properties.items()):
            click.echo(f"{key}: {value}")


@topics.command()
@topic
@click.argument("payloads", nargs=-1)
@click.option("--ttl", type=int, help="Seconds these messages live.")
@click.pass_context
def publish(context: click.Context, topic: tuple[str, str], payloads: tuple[str, ...], ttl: int | None) -> None:
    """Publish texts; without any, each line of standard input is a message."""
    texts = [payload.encode() for payload in payloads] or [line.rstrip("\n").encode() for line in sys.stdin]
    if not texts:
        raise click.UsageError("nothing to publish")
    _run(context, lambda client: client.publish(*topic, texts, ttl_seconds=ttl))
    click.echo(f"{len(texts)} published")


@topics.command()
@topic
@click.option("--from", "start", help="A message id (hex) or a time in milliseconds; the oldest message otherwise.")
@click.option("--limit", type=int, help="At most this many messages.")
@click.option("--committed", is_flag=True, help="Only what is committed; stop at the first undecided message.")
@output
@click.pass_context
def poll(
    context: click.Context, topic: tuple[str, str], start: str | None, limit: int | None, committed: bool, output: str
) -> None:
    """Read one page of messages."""
    page = _run(
        context,
        lambda client: client.poll(*topic, start_from=_start(start), limit=limit, read_committed=committed),
    )
    _print_page(page, output)


@topics.command()
@topic
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until interrupted.")
@click.option("--limit", type=int, default=10, show_default=True, help="How many of the newest to begin with.")
@output
@click.pass_context
def tail(context: click.Context, topic: tuple[str, str], follow: bool, limit: int, output: str) -> None:
    """Read the newest messages."""

    async def act(client: MessagingClient) -> None:
        newest: list[Any] = []
        position: str | None = None
        while True:
            page = await client.poll(*topic, start_from=position, inclusive=False)
            newest = [*newest, *page.messages][-limit:] if limit > 0 else []
            position = page.next_position
            if not page.messages:
                break
        _print_messages(newest, output)
        while follow:
            page = await client.poll(*topic, start_from=position, inclusive=False, wait_ms=FOLLOW_WAIT_MS)
            _print_messages(page.messages, output)
            position = page.next_position

    try:
        _run(context, act)
    except KeyboardInterrupt:
        sys.exit(0)


@topics.command()
@topic
@click.option("--after", default="", help="A message id (hex): only what follows it.")
@click.option("--limit", type=int, default=100, show_default=True)
@output
@click.pass_context
def inspect(context: click.Context, topic: tuple[str, str], after: str, limit: int, output: str) -> None:
    """Every row and its state, also what readers skip (hidden, expired) or wait for (undecided)."""
    for row in _run(context, lambda client: client.inspect(*topic, after=after, limit=limit)):
        if output == "json":
            _json(row)
        else:
            payload = _text(base64.b64decode(row["payload"]))
            by = f" transaction {row['transaction']}" if row["transaction"] else ""
            click.echo(f"{row['id']}  {row['state']:<9}{by}  {payload}")


@topics.command()
@topic
@click.argument("target", type=TopicName())
@click.option("--from", "start", help="A message id (hex) or a time in milliseconds; the oldest message otherwise.")
@click.pass_context
def replay(context: click.Context, topic: tuple[str, str], target: tuple[str, str], start: str | None) -> None:
    """Publish the committed messages of one topic into another; running it again stores nothing twice."""

    async def act(client: MessagingClient) -> tuple[int, int]:
        from fairlead_messaging.io.client import Producer

        stored = known = 0
        position, inclusive = _start(start), True
        while True:
            page = await client.poll(
                *topic, start_from=position, inclusive=inclusive, limit=REPLAY_PAGE, read_committed=True
            )
            if not page.messages:
                return stored, known
            for parent, group in groupby(page.messages, key=lambda message: _parent(message.id)):
                messages = list(group)
                # What was replayed before is known by its place in the source, whatever the start was.
                producer = Producer(
                    id=f"replay/{'/'.join(topic)}/{parent}",
                    epoch=0,
                    sequences=[_number(message.id, parent) for message in messages],
                )
                answer = await client.publish(*target, [each.payload for each in messages], producer=producer)
                stored, known = stored + len(answer.stored), known + len(answer.known)
            position, inclusive = page.next_position, False

    stored, known = _run(context, act)
    click.echo(f"{stored} published, {known} were there")


@topics.command()
@topic
@output
@click.pass_context
def lag(context: click.Context, topic: tuple[str, str], output: str) -> None:
    """How far each named reader is behind."""
    readers = _run(context, lambda client: client.readers(*topic))
    if output == "json":
        _json(readers)
    else:
        for reader in readers:
            click.echo(f"{reader['name']}: {reader['lag_messages']} messages, {reader['lag_seconds']:.1f} s")


def _parent(message_id: str) -> str:
    """ "" for a message that stands in its own row; else the row (20 digits) whose payload list it is in."""
    return "" if message_id.endswith("0" * 20) else message_id[:20]


def _number(message_id: str, parent: str) -> int:
    """Time and sequence of the message within its topic, or within its payload list, as one number below 2^63."""
    return int(message_id[20:] if parent else message_id[:20], 16)


def _start(text: str | None) -> str | int | None:
    """An id has 40 hex digits, a time fewer decimal ones."""
    return int(text) if text is not None and text.isdecimal() and len(text) < 40 else text


def _print_page(page: Page, output: str) -> None:
    _print_messages(page.messages, output)
    click.echo(f"next position: {page.next_position}", err=True)


def _print_messages(messages: Any, output: str) -> None:
    for message in messages:
        if output == "json":
            _json({"id": message.id, "payload": base64.b64encode(message.payload).decode()})
        else:
            click.echo(f"{message.id}  {_text(message.payload)}")


def _text(payload: bytes) -> str:
    """A payload on one line; what is not text as its Python form, what is long cut."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        text = repr(payload)
    text = text.replace("\n", "\\n")
    return text if len(text) <= PAYLOAD_CHARS_MAX else text[:PAYLOAD_CHARS_MAX] + "…"
