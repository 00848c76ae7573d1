"""`fairlead topics tail`: prints the newest messages of a topic, and with -f new ones, across restarts."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli import parameters
from fairlead_cli.clients import messaging_client
from fairlead_cli.output import printer, topic_lines

if TYPE_CHECKING:
    from fairlead_messaging.api.responses import Message
    from fairlead_messaging.client.io.sync_client import Client

NEWEST = 10
LIMIT_MAX = 1_000_000
PAUSE_SECONDS = 0.1
PAUSE_SECONDS_MAX = 2.0
SPLITS = 64
READ_ROWS = 1000
"""A range of at most this many rows is read without being split further."""

Topic = tuple[str, str]
Place = str | int | None


def register(root: click.Group) -> None:
    """Also add it to the root command: `fairlead tail TOPIC` is `fairlead topics tail TOPIC`."""

    @messaging_client.options
    def alone(**rest: Any) -> None:
        click.get_current_context().invoke(tail, **rest)

    options = getattr(alone, "__click_params__")  # noqa: B009
    own = [each for each in tail.params if not getattr(each, "hidden", False)]  # without those of `topics`
    command = click.Command(
        "tail", callback=alone, params=[*own, *reversed(options)], help=tail.help, short_help=tail.short_help
    )
    root.add_command(command)


@click.command(short_help="Print the newest messages; with -f, also new ones.")
@messaging_client.topic
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Keep printing new messages until interrupted; wait for a service that restarts.",
)
@click.option(
    "--limit",
    type=click.IntRange(0, LIMIT_MAX),
    help=f"How many of the newest messages to show; default: {NEWEST}, with --from all.",
)
@click.option("--from", "start", type=parameters.PlaceParameter(), help=f"Begin here instead. {parameters.PLACE_HELP}")
@click.option("--committed", is_flag=True, help="Only committed messages; stops at the first undecided one.")
@messaging_client.output
@click.pass_context
def tail(
    context: click.Context,
    topic: Topic,
    follow: bool,
    limit: int | None,
    start: str | int | None,
    committed: bool,
    output: str,
) -> None:
    """Print the newest messages of a topic. Only its end is read, however long it is.

    With -f each message is shown once, in order, even across restarts of the service and broken connections, which are
    noted on standard error. To continue later, use the id shown before a message: --from ID shows that message and the
    following ones.

    \b
    fairlead topics tail -f default/telemetry
    fairlead topics tail default/telemetry --from 15m -o json | jq -r '.payload | @base64d'
    """
    try:
        with messaging_client.service(context) as client:
            if start is None:
                newest, position = _newest(client, topic, NEWEST if limit is None else limit, committed)
                topic_lines.print_messages(newest, output)
                if not newest and not follow and limit != 0:
                    topic_lines.say_none(f"no messages in {'/'.join(topic)}")
            else:
                position = _read_on(client, topic, start, limit, committed, output)
            if follow:
                _follow(client, topic, position, committed, output)
    except KeyboardInterrupt:
        sys.exit(0)


def _read_on(client: Client, topic: Topic, start: str | int, limit: int | None, committed: bool, output: str) -> Place:
    """Print the messages from `start` on, at most `limit`; returns where it ended."""
    from fairlead_messaging.client.cursor import Cursor

    cursor = Cursor(*topic, start_from=start, read_committed=committed)
    place: Place = start
    shown = 0
    while cursor.more and (limit is None or shown < limit):
        found = list(cursor.take(client.do(cursor.ask())))[: None if limit is None else limit - shown]
        topic_lines.print_messages(found, output)
        shown += len(found)
        place = found[-1].id if found else place
    if not shown and limit != 0:
        topic_lines.say_none(f"no messages in {'/'.join(topic)} from there on")
    return place if limit is not None and shown == limit else cursor.position


def _newest(client: Client, topic: Topic, limit: int, committed: bool) -> tuple[list[Message], Place]:
    """The newest messages, oldest first, and the position after them."""
    from fairlead_messaging.client.cursor import Cursor

    wanted = max(1, limit)
    while True:
        begin = _near_the_end(client, topic, wanted)
        found: deque[Message] = deque(maxlen=limit)
        cursor = Cursor(*topic, start_from=begin or None, inclusive=False, read_committed=committed)
        while cursor.more:
            found.extend(cursor.take(client.do(cursor.ask())))
        if len(found) >= limit or not begin:
            return list(found), cursor.position
        wanted *= 8  # rolled back and expired messages are counted as stored, but not shown


def _near_the_end(client: Client, topic: Topic, rows: int) -> str:
    """An exclusive start with at least `rows` rows after it, and not many more; "" is the beginning.

    The service reports the distribution of rows without reading them, so a few steps suffice for a topic of any length.
    """
    from fairlead_messaging.client.errors import Expired

    begin = ""
    try:
        while True:
            plan = client.plan(*topic, after=begin, splits=SPLITS)
            if plan.rows <= max(2 * rows, READ_ROWS):
                return begin
            counted, closer = 0, begin
            for part in reversed(plan.ranges):
                counted, closer = counted + part.rows, part.after
                if counted >= rows:
                    break
            if closer == begin:
                return begin
            begin = closer
    except Expired as gone:  # the start expired meanwhile
        return gone.oldest


def _follow(client: Client, topic: Topic, position: Place, committed: bool, output: str) -> None:
    """Print new messages while the output has a reader.  After an outage, the same page is requested again."""
    from fairlead_messaging.client.cursor import Cursor
    from fairlead_wire.errors import Temporary

    cursor = Cursor(*topic, start_from=position, inclusive=False, follow=True, read_committed=committed)
    pause = PAUSE_SECONDS
    program = messaging_client.program_of(click.get_current_context())
    while printer.has_reader():
        try:
            page = client.do(cursor.ask())
        except Temporary as failed:
            if pause == PAUSE_SECONDS:
                click.echo(f"{program}: {failed}; waiting for it", err=True)
            time.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)
            continue
        if pause != PAUSE_SECONDS:
            click.echo(f"{program}: it is back", err=True)
            pause = PAUSE_SECONDS
        topic_lines.print_messages(cursor.take(page), output)
