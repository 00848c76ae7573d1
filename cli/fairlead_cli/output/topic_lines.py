"""What the messaging service says, printed: messages a line each, whole in files and cut on terminals."""

from __future__ import annotations

import base64
import datetime
import json
import shutil
import sys
from typing import TYPE_CHECKING

import click

from fairlead_cli.text import printable

if TYPE_CHECKING:
    from fairlead_messaging.api.responses import Message


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
    return printable.one_line(text)
