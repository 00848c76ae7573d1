"""Prints messages of topics, one per line: complete in files, truncated on terminals."""

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
    """One JSON object per line; bytes as base64."""
    import msgspec

    click.echo(json.dumps(msgspec.to_builtins(value)))


def say_none(sentence: str) -> None:
    """An empty list is reported on standard error, as in kubectl."""
    click.echo(sentence, err=True)


def print_messages(messages: tuple[Message, ...] | list[Message], output: str) -> None:
    """One line per message: time, id and payload, or JSON."""
    for message in messages:
        if output == "json":
            print_json({"id": message.id, "payload": base64.b64encode(message.payload).decode()})
        else:
            print_line(f"{moment(message.published_ms)}  {message.id}  {shown(message.payload)}")


def print_line(line: str) -> None:
    """Complete in files and pipes; on a terminal truncated to its width, so that each message stays on one line."""
    if sys.stdout.isatty():
        columns = shutil.get_terminal_size().columns
        line = line if len(line) <= columns else f"{line[: columns - 1]}…"
    click.echo(line)


def moment(milliseconds: int) -> str:
    """UTC, with milliseconds; the number itself if it is beyond the calendar."""
    try:
        time = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown(payload: bytes) -> str:
    """A payload on one line: control characters are escaped, and binary data is shown as in Python."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        text = repr(payload)
    return printable.one_line(text)
