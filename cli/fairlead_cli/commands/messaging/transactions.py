"""`fairlead topics transactions`: lists open and finished transactions, and ends one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from fairlead_cli.clients import messaging_client
from fairlead_cli.output import topic_lines
from fairlead_cli.text import quantities
from fairlead_wire import durations

if TYPE_CHECKING:
    from fairlead_messaging.api.requests import TransactionState
    from fairlead_messaging.api.responses import OpenTransaction


@click.group(short_help="Show which transactions block readers, and invalidate them.", invoke_without_command=True)
@click.pass_context
def transactions(context: click.Context) -> None:
    """List transactions, and end one. Readers of committed messages stop at the first undecided message.

    \b
    Open ones, and whom they hold up:             fairlead topics transactions
    Those that finished within the last day:      fairlead topics transactions list --state ended
    Those ended by the service or an operator:    fairlead topics transactions list --state invalid
    End one for its owner:                        fairlead topics transactions invalidate POINTER
    """
    if context.invoked_subcommand is None:
        context.invoke(list_)


@transactions.command("list")
@click.option(
    "--state",
    type=click.Choice(["in_progress", "committed", "aborted", "invalid", "ended"]),
    default="in_progress",
    show_default=True,
    help="State of the transactions; ended: all but in_progress.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="Maximum number of finished transactions.",
)
@click.option("--before", type=click.IntRange(1), help="Only finished ones that began before this pointer.")
@messaging_client.output
@click.pass_context
def list_(
    context: click.Context,
    output: str = "text",
    state: TransactionState = "in_progress",
    limit: int = 100,
    before: int | None = None,
) -> None:
    """List open transactions, oldest first, with the topics whose readers wait; or finished ones, newest first.

    \b
    1763800000000000000  open for 12 s, 18 s left unless it is renewed (up to 23 h 59 min)
                         holds up default/orders for 9.0 s, 9 min 51 s more at most
    1763790000000000000  invalid (hold_up) 2026-11-22T05:50:10.000Z after 10 min
    """
    with messaging_client.service(context) as client:
        found = client.transactions(state, limit=limit, before=before)
    if output == "json":
        topic_lines.print_json(found)
        return
    if not found:
        topic_lines.say_none("no open transactions" if state == "in_progress" else f"no {state} transactions")
    now_ms = time.time() * 1000
    for each in found:
        click.echo(_open(each, now_ms) if each.ended is None else _ended(each))


def _open(each: OpenTransaction, now_ms: float) -> str:
    def span(milliseconds: float) -> str:
        return durations.span(milliseconds / 1000)

    holds = ", ".join(
        f"{held.topic} for {span(now_ms - held.since)}" + (f", {span(held.until - now_ms)} more" if held.until else "")
        for held in each.topics
    )
    stored = ", ".join(f"{quantities.of(stored.messages, 'message')} for {stored.topic}" for stored in each.stored)
    parts = [
        f"{each.transactionWritePointer}  open for {span(now_ms - each.started)}, {span(each.expires - now_ms)} left"
        f" unless it is renewed (up to {span(each.renewable - now_ms)})",
        f"holds up {holds} at most" if holds else "holds up no reader",
    ]
    return "  ".join([*parts, f"stored {stored}"] if stored else parts)


def _ended(each: OpenTransaction) -> str:
    why = f" ({each.ended_by})" if each.ended_by else ""
    lasted = durations.span(((each.ended or each.started) - each.started) / 1000)
    marks = "" if each.marked or each.state == "committed" else "  its messages are being marked"
    ended = topic_lines.moment(each.ended or 0)
    return f"{each.transactionWritePointer}  {each.state}{why} {ended} after {lasted}{marks}"


@transactions.command()
@click.argument("pointer", type=click.IntRange(1))
@messaging_client.output
@click.pass_context
def invalidate(context: click.Context, pointer: int, output: str) -> None:
    """End a transaction for its owner: its messages stay hidden, and waiting readers continue.

    The owner can no longer publish in it or commit it. Exit 1 if it has already ended; the reason says how.
    """
    with messaging_client.service(context) as client:
        client.finish_transaction(pointer, "invalidate")
    if output == "json":
        topic_lines.print_json({"transactionWritePointer": pointer, "state": "invalid"})
    else:
        click.echo(f"{pointer} is invalid")
