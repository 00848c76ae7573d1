"""Where the messaging service is and who we are, for the commands that ask it; and how what it says is shown."""

from __future__ import annotations

import base64
import datetime
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.hub_account import settings_of

if TYPE_CHECKING:
    from fairlead_messaging.api.responses import Message
    from fairlead_messaging.client.io.sync_client import Client

DEFAULT_URL = "http://127.0.0.1:11015"
HOW_TO_NAME = "fairlead topics --url URL … or --config FILE (a room's settings)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What the options of `fairlead topics` say."""

    url: str
    named: bool = True
    """False: it was not given, and is the default."""
    ca: Path | None
    cert: Path | None
    key: Path | None


class TopicName(click.ParamType[tuple[str, str]]):
    """NAMESPACE/NAME, or NAME in `default`."""

    name = "topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        namespace, slash, name = str(value).rpartition("/")
        if not name or (slash and not namespace):
            self.fail("write NAMESPACE/NAME or NAME", param, ctx)
        return namespace or "default", name


output = click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of the output."
)
topic = click.argument("topic", type=TopicName())


def account(url: str | None, config: Path | None, ca: Path | None, cert: Path | None, key: Path | None) -> Account:
    """Options win over the configuration file.  Raises `click.UsageError`."""
    read = settings_of(config) if config is not None else {}
    for name in ("messaging_url", "http_listen", "tls_ca", "tls_cert", "tls_key"):
        if not isinstance(read.get(name, ""), str):
            raise click.UsageError(f"{config}: {name}: must be text, is {str(read[name])[:80]}")
    address = url or read.get("messaging_url")
    if address is None and "http_listen" in read:
        scheme = "http" if read.get("security") == "insecure" else "https"
        address = f"{scheme}://{read['http_listen']}"
    files = {
        name: given or (Path(read[f"tls_{name}"]).expanduser() if f"tls_{name}" in read else None)
        for name, given in (("ca", ca), ("cert", cert), ("key", key))
    }
    return Account(url=str(address or DEFAULT_URL), named=address is not None, **files)


@contextmanager
def service(context: click.Context, *, patient: bool = False) -> Iterator[Client]:
    """The service; what it refuses, or that it cannot be reached, becomes one sentence and exit status 1.

    `patient`: a service that restarts meanwhile is waited for, a minute at most.
    """
    from fairlead_messaging.client.io.connections import Tls
    from fairlead_messaging.client.io.sync_client import Client
    from fairlead_messaging.client.retry import PATIENT
    from fairlead_wire.errors import FairleadError, LocalError, Temporary

    asked: Account = context.find_object(Account) or Account(url=DEFAULT_URL, named=False, ca=None, cert=None, key=None)
    tls = None
    if asked.url.startswith("https:"):
        if not (asked.ca and asked.cert and asked.key):
            raise click.UsageError("https needs --ca, --cert and --key, or a --config that names them")
        tls = Tls(ca=str(asked.ca), cert=str(asked.cert), key=str(asked.key))
    try:
        client = Client(asked.url, tls=tls, retries=PATIENT if patient else None)
    except LocalError as error:
        raise click.UsageError(str(error)) from None
    try:
        with client:
            yield client
    except FairleadError as error:
        click.echo(f"fairlead topics: {getattr(error, 'reason', '') or error}", err=True)
        if not asked.named and isinstance(error, Temporary):
            click.echo(f"fairlead topics: asked {DEFAULT_URL}, the default; name the service: {HOW_TO_NAME}", err=True)
        sys.exit(1)


def print_json(value: object) -> None:
    """One object a line; bytes as base64."""
    import msgspec

    click.echo(json.dumps(msgspec.to_builtins(value)))


def say_none(sentence: str) -> None:
    """An empty list says so, beside the output and not in it, as kubectl does."""
    click.echo(sentence, err=True)


def print_messages(messages: tuple[Message, ...] | list[Message], output: str) -> None:
    """Each on a line: time, id and payload, or JSON."""
    for message in messages:
        if output == "json":
            print_json({"id": message.id, "payload": base64.b64encode(message.payload).decode()})
        else:
            print_line(f"{moment(message.published_ms)}  {message.id}  {shown(message.payload)}")


def print_line(line: str) -> None:
    """Whole into files and pipes; on a terminal what fits into its width, so that each message stays one line."""
    if sys.stdout.isatty():
        columns = shutil.get_terminal_size().columns
        line = line if len(line) <= columns else f"{line[: columns - 1]}…"
    click.echo(line)


def moment(milliseconds: int) -> str:
    """UTC, with milliseconds; the number itself beyond what a calendar holds."""
    try:
        time = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown(payload: bytes) -> str:
    """A payload on one line: what a terminal might obey is escaped, what is not text is shown as Python does."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        text = repr(payload)
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
