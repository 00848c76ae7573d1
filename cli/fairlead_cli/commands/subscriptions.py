"""`fairlead topics subscriptions`: who gets a topic's messages pushed, and how that goes."""

from __future__ import annotations

import json
import time

import click

from fairlead_cli import messaging_account, moments


@click.group(short_help="Push messages to HTTP endpoints.")
def subscriptions() -> None:
    """A subscription pushes committed messages, one POST each and in order, by a delivery policy."""


@subscriptions.command("list")
@messaging_account.topic
@messaging_account.output
@click.pass_context
def list_(context: click.Context, topic: tuple[str, str], output: str) -> None:
    """Subscriptions of a topic: messages by outcome, what is being retried, and what holds it up."""
    with messaging_account.service(context) as client:
        found = client.subscriptions(*topic)
    if output == "json":
        messaging_account.print_json(found)
        return
    if not found:
        messaging_account.say_none(f"{'/'.join(topic)} has no subscriptions")
    for each in found:
        click.echo(
            f"{each.name}  {each.url}  delivered {each.delivered}, dead-lettered {each.dead_lettered}, "
            f"dropped {each.dropped}, expired {each.expired}"
        )
        if each.state not in ("delivering", "retrying"):
            click.echo(f"  {each.state}: {each.reason}")
        if each.attempts:
            wait = moments.span(each.next_attempt_ms / 1000 - time.time())
            click.echo(f"  attempt {each.attempts + 1} in {wait}: {each.last_error}")


@subscriptions.command("put")
@messaging_account.topic
@click.argument("name")
@click.argument("url")
@click.option("--delivery", help="A delivery policy as JSON; see `fairlead backoff schedule`.")
@click.option("--dead-letter-topic", metavar="TOPIC", help="NAMESPACE/NAME for what cannot be delivered.")
@click.pass_context
def put(
    context: click.Context,
    topic: tuple[str, str],
    name: str,
    url: str,
    delivery: str | None,
    dead_letter_topic: str | None,
) -> None:
    """Push what comes from now on to URL; put again it changes and keeps its place."""
    from fairlead_wire import delivery as policies
    from fairlead_wire.validation.mistakes import Wrong

    try:
        policy = policies.parse(json.loads(delivery)) if delivery is not None else None
    except Wrong as error:
        raise click.BadParameter(error.sentence, param_hint="--delivery") from None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--delivery") from None
    except RecursionError:
        raise click.BadParameter("nested too deeply", param_hint="--delivery") from None
    with messaging_account.service(context) as client:
        client.put_subscription(*topic, name, url=url, delivery=policy, dead_letter_topic=dead_letter_topic)
    click.echo(f"{name} gets {'/'.join(topic)}")


@subscriptions.command("delete")
@messaging_account.topic
@click.argument("name")
@click.pass_context
def delete(context: click.Context, topic: tuple[str, str], name: str) -> None:
    """Push nothing more to it."""
    with messaging_account.service(context) as client:
        client.delete_subscription(*topic, name)
    click.echo(f"{name} deleted")
