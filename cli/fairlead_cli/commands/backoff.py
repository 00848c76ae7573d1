"""`fairlead backoff`: shows what a delivery policy does before anything depends on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import click

from fairlead_cli import batch

if TYPE_CHECKING:
    from fairlead_wire.delivery_policy import DeliveryPolicy

PLOT_COLUMNS = 60
RETRIES_SHOWN_MAX = 100
POLICY_CHARS_MAX = 65_536
CURVES = ("linear", "arithmetic", "geometric", "exponential")
EXAMPLE = '{"minimum_delay": 5, "maximum_delay": 260, "backoff_retries": 10, "retry_backoff_function": "geometric"}'


def register(root: click.Group) -> None:
    """Add `backoff` to the root command."""
    root.add_command(backoff)


@click.group(short_help="Show what a delivery policy does: when it retries, and when it gives up.")
def backoff() -> None:
    """Show what a delivery policy does: when it retries, and when it gives up.

    A policy has the same form everywhere: in the hub's [delivery], in a SyncRule, in a topic and in a subscription. A
    subscription's policy overrides its topic's, unless the topic's has `ignore_subscription_override`.
    """


@backoff.command()
def schedule() -> None:
    """Print the schedule of each policy; one JSON object per line in and out.

    \b
    in:   {"retries_with_no_delay": 1, "minimum_delay": 5, "maximum_delay": 30, ...}
    out:  {"schedule": [{"phase": "immediate", "seconds": 0.0}, ...], "total_seconds": n}
    or:   {"error": [{"message": "minimum_delay: must be ..."}]}
    """
    batch.reject_terminal(EXAMPLE)
    batch.answer_lines(answer_schedule)


def answer_schedule(request: dict[str, Any]) -> dict[str, Any]:
    """The schedule of one policy.  Raises ``BadBatchLine``."""
    from fairlead_wire import delivery_policy
    from fairlead_wire.validation.mistakes import Wrong

    try:
        policy = delivery_policy.parse(request)
    except Wrong as reason:
        raise batch.BadBatchLine(reason.sentence) from None
    delays = delivery_policy.schedule(policy, Random())
    return {"schedule": delays, "total_seconds": delivery_policy.total_seconds(delays)}


@backoff.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path), metavar="[FILE.png|FILE.svg]")
@click.option("--minimum", default=5.0, show_default=True, help="First delay, seconds.")
@click.option("--maximum", default=260.0, show_default=True, help="Last delay, seconds.")
@click.option("--retries", default=10, show_default=True, type=click.IntRange(1, 100), help="Number of retries.")
@click.option("--curve", type=click.Choice(CURVES), multiple=True, help="Only these; may be repeated.")
@click.option(
    "--policy",
    metavar="JSON|PATH|-",
    help="Also draw this delivery policy: JSON, a file that holds it, or - for standard input.",
)
def plot(
    file: Path | None, minimum: float, maximum: float, retries: int, curve: tuple[str, ...], policy: str | None
) -> None:
    """Draw the backoff curves in the terminal, or as a picture in FILE.

    \b
    fairlead backoff plot
    fairlead backoff plot curves.png
    fairlead backoff plot policy.svg --policy '{"minimum_delay": 1, "maximum_delay": 60, "jitter": "equal"}'

    In the terminal each retry is a bar whose length is the delay. A picture needs matplotlib (extra plot).
    """
    from fairlead_wire import delivery_policy

    try:
        curves = {name: _curve(name, minimum, maximum, retries) for name in curve or CURVES}
        given = None if policy is None else delivery_policy.parse(_document(policy))
    except ValueError as reason:
        raise click.UsageError(str(reason)) from None
    if file is not None:
        _save(file, curves, given)
        return
    for name, each in curves.items():
        click.echo("\n".join(draw(name, each)))
    if given is not None:
        click.echo("\n".join(draw("policy", given)))


def _curve(name: str, minimum: float, maximum: float, retries: int) -> DeliveryPolicy:
    from fairlead_wire import delivery_policy

    return delivery_policy.parse(
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


def _document(policy: str) -> object:
    """The JSON of a policy.  Raises ``ValueError`` with the reason."""
    text = policy
    if not policy.lstrip().startswith("{"):
        try:
            with click.open_file(policy, "r") as source:
                text = source.read(POLICY_CHARS_MAX + 1)
        except OSError as error:
            raise ValueError(f"--policy: {policy[:80]}: {error.strerror}") from None
    if len(text) > POLICY_CHARS_MAX:
        raise ValueError(f"--policy: longer than {POLICY_CHARS_MAX} characters")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError('--policy: must be JSON, such as {"minimum_delay": 1, "maximum_delay": 60}') from None


def _save(file: Path, curves: Mapping[str, DeliveryPolicy], policy: DeliveryPolicy | None) -> None:
    from fairlead_cli.output import backoff_picture
    from fairlead_wire import delivery_policy

    if file.suffix not in backoff_picture.ENDINGS:
        raise click.UsageError(f"{file}: must end in {' or '.join(backoff_picture.ENDINGS)}")
    figure = backoff_picture.draw({name: delivery_policy.schedule(each) for name, each in curves.items()}, policy)
    try:
        backoff_picture.save(figure, file)
    except OSError as error:
        raise click.ClickException(f"{file}: cannot be written: {error.strerror or error}") from None
    click.echo(f"{file}: drawn")


def draw(name: str, policy: DeliveryPolicy) -> list[str]:
    """The lines that draw one curve."""
    from fairlead_wire import delivery_policy

    delays = delivery_policy.schedule(policy)
    longest = max((item.seconds for item in delays), default=0.0) or 1.0
    lines = [f"{name}: {len(delays)} retries, {delivery_policy.total_seconds(delays):.1f} s of waiting"]
    for number, item in enumerate(delays[:RETRIES_SHOWN_MAX], start=1):
        bar = "█" * max(1, round(item.seconds / longest * PLOT_COLUMNS))
        lines.append(f"  {number:>3} {item.seconds:>10.2f} s {bar}")
    if len(delays) > RETRIES_SHOWN_MAX:
        lines.append(f"  … and {len(delays) - RETRIES_SHOWN_MAX} more")
    return [*lines, ""]
