"""`fairlead topics replay`: copies committed messages of a topic into another, without duplicates if repeated."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import click

from fairlead_cli import parameters
from fairlead_cli.clients import messaging_client
from fairlead_cli.clients.messaging_client import TopicName
from fairlead_cli.output import topic_lines
from fairlead_cli.output.progress import ProgressBar

if TYPE_CHECKING:
    from fairlead_messaging.api.responses import Message
    from fairlead_messaging.client.io.sync_client import Client

PAGE_MESSAGES = 1000
WINDOW_BITS = 14
"""A producer for each 16 s of the source: few enough gaps for the service to know each by heart, 65,536 at most."""


@click.command(short_help="Copy a topic's committed messages into another topic.")
@messaging_client.topic
@click.argument("target", type=TopicName())
@click.option(
    "--from",
    "start",
    type=parameters.PlaceParameter(),
    help=f"Begin here; default: the oldest message. {parameters.PLACE_HELP}",
)
@click.option("--until", "end", type=parameters.PlaceParameter(), help="End with this message, or before this time.")
@click.option("--dry-run", is_flag=True, help="Only count the messages.")
@messaging_client.output
@click.pass_context
def replay(
    context: click.Context,
    topic: tuple[str, str],
    target: tuple[str, str],
    start: str | int | None,
    end: str | int | None,
    dry_run: bool,
    output: str,
) -> None:
    """Copy the committed messages of TOPIC into TARGET, which must exist.

    Messages are identified by their place in TOPIC, so repeated or overlapping runs store nothing twice (within the
    target's ttl, and at least 30 days). After an interruption, run it again. It ends at the newest message, or at the
    first message of an open transaction.

    \b
    fairlead topics replay default/telemetry default/telemetry-again --from 2026-11-20T08:00Z --until 2026-11-20T09:00Z
    """
    if topic == target:
        raise click.UsageError("a topic cannot be replayed into itself")
    from fairlead_messaging.client.cursor import Cursor

    stored = known = 0
    with (
        messaging_client.service(context, patient=True) as client,
        ProgressBar(f"replaying {'/'.join(topic)}, messages") as progress,
    ):
        with messaging_client.to_existing(target):
            client.topic(*target)
        cursor = Cursor(*topic, start_from=start, limit=PAGE_MESSAGES)
        ended = False
        while cursor.more and not ended:
            found = cursor.take(client.do(cursor.ask()))
            wanted = [message for message in found if not parameters.is_beyond(message.id, end)]
            ended = len(wanted) < len(found)
            for name, group in groupby(wanted, key=_window):
                messages = list(group)
                if dry_run:
                    stored += len(messages)
                    continue
                new, old = _publish(client, target, f"replay/{'/'.join(topic)}/{name}", messages)
                stored, known = stored + new, known + old
            progress.add(len(wanted))
    if output == "json":
        topic_lines.print_json({"published": stored, "known": known, "dry_run": dry_run})
    elif dry_run:
        click.echo(f"{stored} would be published")
    else:
        click.echo(f"{stored} published, {known} already existed")


def _publish(client: Client, target: tuple[str, str], producer_id: str, messages: list[Message]) -> tuple[int, int]:
    """The number of messages stored now, and of those that already existed."""
    from fairlead_messaging.api.requests import Producer

    producer = Producer(id=producer_id, epoch=0, sequences=[_number(each.id) % 2**_NUMBER_BITS for each in messages])
    answer = client.publish(*target, [each.payload for each in messages], producer=producer)
    return len(answer.stored), len(answer.known)


_NUMBER_BITS = 16 + WINDOW_BITS


def _window(message: Message) -> str:
    """Names the producer of a message: its stretch of time, and the payload list it is in if it is in one."""
    return f"{_parent(message.id)}/{_number(message.id) >> _NUMBER_BITS:x}"


def _parent(message_id: str) -> str:
    """ "" for a message that stands in its own row; else the row (20 digits) whose payload list it is in."""
    return "" if message_id.endswith("0" * 20) else message_id[:20]


def _number(message_id: str) -> int:
    """Time and sequence of the message within its topic, or within its payload list, as one number below 2^63."""
    return int(message_id[20:] if _parent(message_id) else message_id[:20], 16)
