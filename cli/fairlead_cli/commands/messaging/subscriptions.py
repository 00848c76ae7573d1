"""`fairlead topics subscriptions`: pushes a topic's messages to HTTP endpoints, and shows the results."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from fairlead_cli import parameters
from fairlead_cli.clients import messaging_client
from fairlead_cli.output import topic_lines
from fairlead_wire import durations

if TYPE_CHECKING:
    from fairlead_wire.delivery_policy import DeliveryPolicy


@click.group(short_help="Push messages to HTTP endpoints.")
def subscriptions() -> None:
    """Push committed messages to HTTP endpoints, in order, one POST each, retried by a delivery policy.

    The policy is the subscription's own, else its topic's (`fairlead topics create TOPIC --delivery JSON`), else the
    default. A topic's policy with `"ignore_subscription_override": true` applies to all its subscriptions.

    \b
    fairlead topics subscriptions put orders shop https://shop.example.com/orders
    fairlead topics subscriptions list orders
    """


@subscriptions.command("list")
@messaging_client.topic
@messaging_client.output
@click.pass_context
def list_(context: click.Context, topic: tuple[str, str], output: str) -> None:
    """List the subscriptions of a topic: messages by outcome, retries, and problems."""
    with messaging_client.service(context) as client:
        found = client.subscriptions(*topic)
    if output == "json":
        topic_lines.print_json(found)
        return
    if not found:
        topic_lines.say_none(f"{'/'.join(topic)} has no subscriptions")
    for each in found:
        click.echo(
            f"{each.name}  {each.url}  delivered {each.delivered}, dead-lettered {each.dead_lettered}, "
            f"dropped {each.dropped}, expired {each.expired}"
        )
        own = each.delivery is not None and not each.effectiveDelivery.ignore_subscription_override
        click.echo(
            f"  {'its own policy' if own else 'the policy of its topic, or the default'}: "
            f"{parameters.policy_shown(each.effectiveDelivery)}"
        )
        if each.state not in ("delivering", "retrying"):
            click.echo(f"  {each.state}: {each.reason}")
        if each.attempts:
            wait = durations.span(each.next_attempt_ms / 1000 - time.time())
            click.echo(f"  attempt {each.attempts + 1} in {wait}: {each.last_error}")


@subscriptions.command("put")
@messaging_client.topic
@click.argument("name")
@click.argument("url")
@click.option(
    "--delivery",
    type=parameters.Policy(),
    help="Its own delivery policy; without it the topic's applies. See `fairlead backoff schedule`.",
)
@click.option("--dead-letter-topic", metavar="TOPIC", help="NAMESPACE/NAME for messages that cannot be delivered.")
@click.pass_context
def put(
    context: click.Context,
    topic: tuple[str, str],
    name: str,
    url: str,
    delivery: DeliveryPolicy | None,
    dead_letter_topic: str | None,
) -> None:
    """Push new messages to URL; an existing subscription is changed and keeps its position."""
    with messaging_client.service(context) as client:
        client.put_subscription(*topic, name, url=url, delivery=delivery, dead_letter_topic=dead_letter_topic)
    click.echo(f"{name} receives {'/'.join(topic)}")


@subscriptions.command("delete")
@messaging_client.topic
@click.argument("name")
@click.pass_context
def delete(context: click.Context, topic: tuple[str, str], name: str) -> None:
    """Delete a subscription."""
    with messaging_client.service(context) as client:
        client.delete_subscription(*topic, name)
    click.echo(f"{name} deleted")
