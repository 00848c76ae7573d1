"""`fairlead topics transactions`: who holds up the readers, and how an operator ends it."""

from __future__ import annotations

import time

import click

from fairlead_cli import messaging_account, moments


@click.group(short_help="Who holds up the readers; invalidate it.")
def transactions() -> None:
    """Open transactions. Readers of committed messages stop at the first undecided one until it is decided."""


@transactions.command("list")
@messaging_account.output
@click.pass_context
def list_(context: click.Context, output: str) -> None:
    """Open transactions, oldest first, and the topics whose readers wait for each."""
    with messaging_account.service(context) as client:
        found = client.transactions()
    if output == "json":
        messaging_account.print_json(found)
        return
    if not found:
        messaging_account.say_none("no open transactions")
    now_ms = time.time() * 1000
    for each in found:
        waiting = ", ".join(f"{held.topic} for {moments.span((now_ms - held.since) / 1000)}" for held in each.topics)
        age, left = (moments.span(ms / 1000) for ms in (now_ms - each.started, each.expires - now_ms))
        effect = f"holds up {waiting}" if waiting else "holds up nobody"
        click.echo(f"{each.transactionWritePointer}  open for {age}, {left} left  {effect}")


@transactions.command()
@click.argument("pointer", type=click.IntRange(1))
@messaging_account.output
@click.pass_context
def invalidate(context: click.Context, pointer: int, output: str) -> None:
    """End a transaction on its owner's behalf: its messages stay hidden for ever, and its readers go on.

    Its owner cannot publish or commit any more. Exit 1 when it is over already; the reason says how it ended.
    """
    with messaging_account.service(context) as client:
        client.finish_transaction(pointer, "invalidate")
    if output == "json":
        messaging_account.print_json({"transactionWritePointer": pointer, "state": "invalid"})
    else:
        click.echo(f"{pointer} is invalid")
