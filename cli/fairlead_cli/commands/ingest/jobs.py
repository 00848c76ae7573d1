"""`fairlead ingest jobs`: shows how far each job is behind its topics, as the messaging service knows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli.clients import messaging_client
from fairlead_cli.output import printer, topic_lines
from fairlead_cli.output.printer import Printer
from fairlead_cli.output.tables import OutputColumn, TableView
from fairlead_cli.text import quantities
from fairlead_wire import durations

if TYPE_CHECKING:
    from fairlead_messaging.client.io.sync_client import Client


@click.command(short_help="Show how far each job is behind its topics.")
@printer.watch_option
@messaging_client.options
@printer.options()
@click.pass_context
def jobs(context: click.Context, watch: bool, shown: Printer) -> None:
    """List every job and topic: its lag in messages and time, and when it last committed.

    Only the messaging service is asked, to which jobs report their position after each commit; other programs that
    report one are listed too. `fairlead ingest status --config FILE` also reads the tables.

    \b
    fairlead ingest jobs --url http://127.0.0.1:11015
    fairlead ingest jobs -o jsonpath='{.items[?(@.lagSeconds>60)].job}'
    """
    with messaging_client.service(context) as client:
        if watch:
            pages = printer.changed_rows(lambda: list(_read(client)), lambda row: (row["job"], row["topic"]))
            shown.follow(VIEW, pages)
        else:
            shown.items(VIEW, list(_read(client)), none="no job has reported its position yet")


def _read(client: Client) -> Iterator[dict[str, Any]]:
    for namespace in client.namespaces():
        for topic in client.topics(namespace):
            for reader in client.readers(namespace, topic):
                yield {
                    "job": reader.name,
                    "topic": f"{namespace}/{topic}",
                    "lagMessages": reader.lag_messages,
                    "lagSeconds": reader.lag_seconds,
                    "lastCommit": topic_lines.moment(reader.updated_ms),
                    "position": reader.position,
                }


VIEW = TableView(
    kind="job",
    name=lambda row: str(row["job"]),
    columns=(
        OutputColumn("JOB", lambda row: row["job"]),
        OutputColumn("TOPIC", lambda row: row["topic"]),
        OutputColumn("MESSAGES BEHIND", lambda row: row["lagMessages"]),
        OutputColumn("BEHIND", lambda row: durations.span(row["lagSeconds"]) if row["lagMessages"] else "-"),
        OutputColumn("LAST COMMIT", lambda row: quantities.since(row["lastCommit"], quantities.utc())),
        OutputColumn("POSITION", lambda row: row["position"], wide=True),
    ),
)
