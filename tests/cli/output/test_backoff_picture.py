"""The picture of a delivery policy: what a reader needs is in it, and it is the same at every run."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.axes import Axes

from fairlead_cli.output import backoff_picture
from fairlead_wire import delivery_policy
from fairlead_wire.delivery_policy import DeliveryPolicy

CURVES = {
    name: delivery_policy.schedule(
        DeliveryPolicy(
            retries_with_no_delay=0,
            minimum_delay_retries=0,
            minimum_delay=5,
            maximum_delay=260,
            maximum_delay_retries=0,
            backoff_retries=10,
            retry_backoff_function=name,
        )
    )
    for name in ("linear", "arithmetic", "geometric", "exponential")
}


def legend(axes: Axes) -> list[str]:
    found = axes.get_legend()
    return [] if found is None else [text.get_text() for text in found.get_texts()]


def test_axes_have_names_and_units_and_every_line_a_legend() -> None:
    figure = backoff_picture.draw(CURVES, DeliveryPolicy())
    curves, policy = figure.axes
    assert figure.get_facecolor() == (1.0, 1.0, 1.0, 1.0)
    for axes in (curves, policy):
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("number of the retry", "delay in seconds")
    shown = [text.partition(",")[0] for text in legend(curves)]
    assert shown == list(CURVES)
    geometric, exponential = curves.get_lines()[2:]
    assert str(geometric.get_ydata()) == str(exponential.get_ydata())
    assert geometric.get_linestyle() != exponential.get_linestyle()
    phases = [text.partition(":")[0] for text in legend(policy)]
    assert phases == ["immediate", "pre_backoff", "backoff", "post_backoff"]


@pytest.mark.slow
def test_an_endless_policy_is_drawn_up_to_a_limit() -> None:
    long = DeliveryPolicy(maximum_delay_retries=190_000)
    [_, axes] = backoff_picture.draw(CURVES, long).axes
    assert "(the first 60 of 190,011)" in axes.get_title(loc="left")
    [_, axes] = backoff_picture.draw(CURVES, DeliveryPolicy(retries_max=0)).axes
    assert legend(axes) == []


@pytest.mark.slow
def test_the_same_policy_gives_the_same_bytes(tmp_path: Path) -> None:
    """So that a picture in a repository changes only when the policy does."""
    for name in ("a.svg", "b.svg"):
        backoff_picture.save(backoff_picture.draw(CURVES, DeliveryPolicy()), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
