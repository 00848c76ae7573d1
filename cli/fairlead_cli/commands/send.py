"""`fairlead send`: sends a message to an input of a module on a node."""

from __future__ import annotations

import base64
import json
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

import click

from fairlead_cli.clients import hub_client
from fairlead_cli.clients.input_client import HubAddress, InputClient
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer

MESSAGE_BYTES_MAX = 256 * 1024
TTL_SECONDS_MAX = 7 * 24 * 3600
WAIT_SECONDS_MAX = 20.0
"""Limit for one request to the hub."""
CONSUMED = "consumed"
MEANS = {
    "accepted": "stored at the hub until the node has it or it expires",
    "delivered": "durable at the node",
    CONSUMED: "its module acknowledged it",
    "expired": "its time to live ended before the module acknowledged it",
    "evicted": "the node needed the space for more urgent messages",
    "dead_lettered": "the module returned it too often; it is now a dead letter of the node",
    "refused": "the node refused it",
}
ENDED = (CONSUMED, "expired", "evicted", "dead_lettered", "refused")


class _ModuleInput(click.ParamType[tuple[str, str]]):
    """MODULE/INPUT."""

    name = "module/input"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        module, slash, input = value.partition("/")
        if not module or not slash or not input or "/" in input:
            self.fail(f"{value!r} must be MODULE/INPUT, for example camera/commands", param, ctx)
        return module, input


class _Property(click.ParamType[tuple[str, str]]):
    """NAME=VALUE."""

    name = "name=value"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not name or not equals:
            self.fail(f"{value!r} must be NAME=VALUE", param, ctx)
        return name, text


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def register(root: click.Group) -> None:
    """Add `send` to the root command."""
    root.add_command(send)


@click.command(short_help="Send a message to an input of a module on a node.")
@click.argument("node")
@click.argument("place", metavar="MODULE/INPUT", type=_ModuleInput())
@click.argument("body", required=False)
@click.option(
    "--ttl",
    type=click.FloatRange(0, TTL_SECONDS_MAX, min_open=True),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to live in seconds, at most 604800 (a week).",
)
@click.option("--receipt", is_flag=True, help="Wait until the module has acknowledged it; then exit 0.")
@click.option(
    "--wait",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="With --receipt: how long to wait, in seconds; default: its time to live, at most 60.",
)
@click.option("--file", "source", type=click.File("rb"), help="Read the body from this file; - is standard input.")
@click.option("--raw", is_flag=True, help="Send the body as bytes, even if it looks like JSON.")
@click.option("-p", "--property", "properties", type=_Property(), multiple=True, help="A property; may be repeated.")
@click.option("--message-id", help="System property messageId, for the module.")
@click.option("--correlation-id", help="System property correlationId, for the module.")
@click.option("--idempotency-key", help="While a message lives, another one with the same key is taken for it.")
@hub_client.options
@click.option("--token-file", type=_FILE, help="A ServiceAccount token: `kubectl create token NAME`.")
@click.option("--tls-ca", type=_FILE, help="CA that signed the hub's certificate, for https.")
@click.option("--tls-cert", type=_FILE, help="Client certificate, for https.")
@click.option("--tls-key", type=_FILE, help="The key of --tls-cert.")
@printer.options(printer.DOCUMENTS)
def send(
    node: str,
    place: tuple[str, str],
    body: str | None,
    ttl: float,
    receipt: bool,
    wait: float | None,
    source: BinaryIO | None,
    raw: bool,
    properties: tuple[tuple[str, str], ...],
    message_id: str | None,
    correlation_id: str | None,
    idempotency_key: str | None,
    hub: str | None,
    config: Path | None,
    token_file: Path | None,
    tls_ca: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    shown: Printer,
) -> None:
    """Send BODY to an input of a module on NODE. The module takes it from the agent over HTTP, once.

    A BODY that is JSON is sent as JSON, anything else as bytes (bodyBase64); a BODY that begins with { or [ but is not
    JSON is refused unless --raw is given. Without BODY and --file it is read from standard input. A node that is away
    gets it when it returns within --ttl.

    \b
    fairlead send edge-1 camera/commands '{"do": "restart"}' --ttl 600
    fairlead send edge-1 camera/commands --file update.bin --ttl 86400 --receipt --wait 30

    Exit codes: 0 accepted (with --receipt: consumed); 1 refused, or not consumed in time; 2 wrong use.
    """
    url = hub_client.hub_url(hub, config) or f"http://{hub_client.DEFAULT_LISTEN}"
    address = HubAddress(url=url, token_file=token_file, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key)
    client = InputClient(address, node, *place)
    message = _message(_body(body, source), raw, dict(properties), message_id, correlation_id)
    until = time.monotonic() + (wait if wait is not None else min(ttl, 60.0))
    found = client.send(message, ttl=ttl, key=idempotency_key)
    if receipt:
        found = _followed(client, found, until, shown)
    if shown.is_for_people:
        reason = f" ({found['reason']})" if found.get("reason") else ""
        click.echo(shown.paint(f"{found['id']}  {found['state']}: {MEANS.get(found['state'], '')}{reason}", ""))
    else:
        shown.document({key: found[key] for key in ("id", "state", "reason", "expiresInSeconds") if key in found})
    if receipt and found["state"] != CONSUMED:
        raise click.exceptions.Exit(1)


def _followed(client: InputClient, found: dict[str, Any], until: float, shown: Printer) -> dict[str, Any]:
    """Wait until the message reaches a final state, or the time is over."""
    while found["state"] not in ENDED and (left := until - time.monotonic()) > 0:
        if shown.is_for_people:
            shown.say(f"{found['id']}  {found['state']}")
        newer = client.state(found["id"], wait=min(left, WAIT_SECONDS_MAX))
        if newer is None:
            raise click.ClickException(f"{found['id']}: node {client.node} does not know it, or no longer does")
        found = newer
    return found


def _body(given: str | None, source: BinaryIO | None) -> bytes:
    if given is not None and source is not None:
        raise click.UsageError("give BODY or --file, not both")
    if given is not None:
        found = given.encode(errors="surrogateescape")
    elif source is not None:
        found = source.read(MESSAGE_BYTES_MAX + 1)
    elif sys.stdin.isatty():
        raise click.UsageError("give BODY, or --file FILE, or pipe it into standard input")
    else:
        found = sys.stdin.buffer.read(MESSAGE_BYTES_MAX + 1)
    if len(found) > MESSAGE_BYTES_MAX:
        raise click.ClickException(f"the body is over {MESSAGE_BYTES_MAX} bytes")
    return found


def _message(
    body: bytes, raw: bool, properties: dict[str, str], message_id: str | None, correlation_id: str | None
) -> bytes:
    """The request; a JSON body is sent exactly as written."""
    system = {"messageId": message_id, "correlationId": correlation_id}
    named = {name: value for name, value in system.items() if value is not None}
    shown = b'"bodyBase64":"' + base64.b64encode(body) + b'"'
    if not raw:
        try:
            json.loads(body.decode(), parse_constant=_no_constant)
            shown = b'"body":' + body
        except (ValueError, RecursionError) as error:
            if body.lstrip()[:1] in (b"{", b"["):
                raise click.UsageError(
                    f"the body begins like JSON but is not: {error}; correct it, or send it as bytes with --raw"
                ) from None
    rest = json.dumps({"properties": properties, "systemProperties": named}).encode()
    return b"{" + shown + b"," + rest[1:]


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
