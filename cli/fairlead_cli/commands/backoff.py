"""`fairlead backoff`: what a delivery policy means, before anything depends on it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli import batch

if TYPE_CHECKING:
    from fairlead_wire.delivery import DeliveryPolicy

PLOT_COLUMNS = 60
CURVES = ("linear", "arithmetic", "geometric", "exponential")
EXAMPLE = '{"minimum_delay": 5, "maximum_delay": 260, "backoff_retries": 10, "retry_backoff_function": "geometric"}'


def register(root: click.Group) -> None:
    """Add `backoff` to the root command."""
    root.add_command(backoff)


@click.group(short_help="Show what a delivery policy does: when it retries, and when it gives up.")
def backoff() -> None:
    """Show what a delivery policy does: when it retries, and when it gives up.

    A policy is the same object everywhere: in the hub's [delivery], in a SyncRule, in a subscription.
    """


@backoff.command()
def schedule() -> None:
    """Answer each policy with its schedule, one JSON object a line in and out.

    \b
    in:   {"retries_with_no_delay": 1, "minimum_delay": 5, "maximum_delay": 30, ...}
    out:  {"schedule": [{"phase": "immediate", "seconds": 0.0}, ...], "total_seconds": n}
    or:   {"error": [{"message": "minimum_delay: must be ..."}]}
    """
    batch.reject_terminal(EXAMPLE)
    batch.answer_lines(answer_schedule)


def answer_schedule(request: dict[str, Any]) -> dict[str, Any]:
    """One policy's schedule, or the reason why it is none."""
    from fairlead_wire import delivery
    from fairlead_wire.validation.mistakes import Wrong

    try:
        policy = delivery.parse(request)
    except Wrong as reason:
        raise batch.BadLine(reason.sentence) from None
    delays = delivery.schedule(policy, Random())
    return {"schedule": delays, "total_seconds": delivery.total_seconds(delays)}


@backoff.command()
@click.option("--minimum", default=5.0, show_default=True, help="First delay, seconds.")
@click.option("--maximum", default=260.0, show_default=True, help="Last delay, seconds.")
@click.option("--retries", default=10, show_default=True, type=click.IntRange(1, 100), help="How many.")
@click.option("--curve", type=click.Choice(CURVES), multiple=True, help="Only these; may be repeated.")
def plot(minimum: float, maximum: float, retries: int, curve: tuple[str, ...]) -> None:
    """Draw the backoff curves: one bar a retry, its length the delay."""
    from fairlead_wire import delivery

    for name in curve or CURVES:
        try:
            policy = delivery.parse(
                {
                    "retries_with_no_delay": 0,
                    "minimum_delay_retries": 0,
                    "maximum_delay_retries": 0,
                    "minimum_delay": minimum,
                    "maximum_delay": maximum,
                    "backoff_retries": retries,
                    "retry_backoff_function": name,
                }
            )
        except ValueError as reason:
            raise click.UsageError(str(reason)) from None
        click.echo("\n".join(draw(name, policy)))


def draw(name: str, policy: DeliveryPolicy) -> list[str]:
    """The lines of one curve's picture."""
    from fairlead_wire import delivery

    delays = delivery.schedule(policy)
    longest = max(item.seconds for item in delays) or 1.0
    lines = [f"{name}: {len(delays)} retries, {delivery.total_seconds(delays):.1f} s of waiting"]
    for number, item in enumerate(delays, start=1):
        bar = "█" * max(1, round(item.seconds / longest * PLOT_COLUMNS))
        lines.append(f"  {number:>3} {item.seconds:>10.2f} s {bar}")
    return [*lines, ""]
