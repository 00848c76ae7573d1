"""`fairlead messaging dump`: prints the tables of a stopped service's store, row by row."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from fairlead_cli import parameters
from fairlead_cli.clients import messaging_client
from fairlead_cli.output import topic_lines

if TYPE_CHECKING:
    from fairlead_messaging.server.io.stores.offline_store import Kind

TABLES = (
    "topics", "messages", "payloads", "transactions", "producers", "subscriptions", "readers", "indexes", "service",
)  # fmt: skip
BODY_BYTES = 1024
"""Limit for one body if `--bodies` has no value."""
BODY_BYTES_MAX = 64 * 1024 * 1024


def register(root: click.Group) -> None:
    """Add `dump` to `messaging`."""
    messaging = root.commands["messaging"]
    assert isinstance(messaging, click.Group)
    messaging.add_command(dump)


@click.command(short_help="Print the tables of a stopped store, row by row.")
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="The store of a stopped service, a copy made while it was stopped, or a snapshot of its volume.",
)
@click.option(
    "--store", type=click.Choice(["rocksdb", "sqlite"]), help="Kind of store; required if the directory has both."
)
@click.option("--table", "tables", type=click.Choice(TABLES), multiple=True, help="Only this table; may be repeated.")
@click.option(
    "--topic", type=messaging_client.TopicName(), help="Only this topic: NAMESPACE/NAME, or NAME in `default`."
)
@click.option("--generation", type=click.IntRange(1, 2**31 - 1), help="Only this generation of topics.")
@click.option(
    "--from",
    "since",
    type=parameters.PlaceParameter(),
    help=f"Only rows published, written or begun since. {parameters.PLACE_HELP}",
)
@click.option("--until", type=parameters.PlaceParameter(), help="End of the range, exclusive.")
@click.option(
    "--transaction", type=click.IntRange(1, 2**63 - 1), metavar="POINTER", help="Only rows of this transaction."
)
@click.option("--count", is_flag=True, help="Rows and bytes of each table, topic and generation instead of rows.")
@click.option(
    "--bodies",
    type=click.IntRange(0, BODY_BYTES_MAX),
    is_flag=False,
    flag_value=BODY_BYTES,
    default=0,
    metavar="[BYTES]",
    help=f"Also print this many bytes of each message (base64); without a number {BODY_BYTES}.",
)
@click.option("--keys", "raw_keys", is_flag=True, help="Also print the raw key of each row in hex.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["jsonl", "json", "text"]),
    default="jsonl",
    show_default=True,
    help="One JSON object per line (json is the same), or name=value.",
)
def dump(
    data_dir: Path,
    store: str | None,
    tables: tuple[str, ...],
    topic: tuple[str, str] | None,
    generation: int | None,
    since: str | int | None,
    until: str | int | None,
    transaction: int | None,
    count: bool,
    bodies: int,
    raw_keys: bool,
    output: str,
) -> None:
    """Print the tables of a messaging store, row by row, with decoded keys and values. The store is never changed.

    \b
    How much is in which table:      fairlead messaging dump --data-dir DATA --count
    Messages of a topic, an hour:    fairlead messaging dump --data-dir DATA --table messages --topic orders --from 1h
    All of one transaction:          fairlead messaging dump --data-dir DATA --transaction 1763800000000000000
    With the first 200 bytes:        fairlead messaging dump --data-dir DATA --table payloads --bodies 200
    Damaged rows:                    fairlead messaging dump --data-dir DATA | jq 'select(.undecodable)'

    A damaged row is printed with the reason (`undecodable`) and its raw key, and the exit code is then 1. It is also 1
    if a service has the store open. Tables, keys and fields are described in docs/reference/messaging-store.md.
    """
    from fairlead_messaging.api.errors import StorageError
    from fairlead_messaging.server.dump import table_dump
    from fairlead_messaging.server.dump.table_dump import DumpSelection
    from fairlead_messaging.server.io.stores import offline_store

    selection = DumpSelection(
        tables=tables,
        topic=topic,
        generation=generation,
        since_ms=_milliseconds(since),
        until_ms=_milliseconds(until),
        transaction=transaction,
    )
    damaged = 0
    try:
        with offline_store.opened(data_dir, cast("Kind | None", store)) as rows:
            meaning = table_dump.context(rows, bodies)
            found: Generator[dict[str, Any]] = (
                table_dump.counts(rows, selection, meaning)
                if count
                else table_dump.lines(rows, selection, meaning, raw_keys=raw_keys)
            )
            with contextlib.closing(found):  # before the store is, also where `| head` ends the output
                for line in found:
                    damaged += line.get("undecodable", 0) if count else "undecodable" in line
                    click.echo(json.dumps(line) if output != "text" else _text(line))
    except offline_store.NoStore as error:
        raise click.UsageError(str(error)) from None
    except StorageError as error:
        click.echo(f"fairlead messaging dump: {error}", err=True)
        sys.exit(1)
    if damaged:
        click.echo(f"fairlead messaging dump: rows that cannot be decoded: {damaged}", err=True)
        sys.exit(1)


def _milliseconds(place: str | int | None) -> int | None:
    """A time in milliseconds, or the time at which the message with this id was published."""
    if not isinstance(place, str):
        return place
    try:
        return int(place[:16], 16)
    except ValueError:
        raise click.BadParameter(f"{place!r} is not a message id") from None


def _text(line: dict[str, Any]) -> str:
    pairs = (
        f"{name}={value if isinstance(value, str | int) else json.dumps(value)}"
        for name, value in line.items()
        if name != "table"
    )
    return topic_lines.shown("  ".join([f"{line['table']:<13}", *pairs]).encode())
