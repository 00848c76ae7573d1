"""Draws the backoff curves and one delivery policy as PNG or SVG, depending on the file's extension.

    curves by name ─┐
    policy ─────────┴draw▶ Figure ─save▶ FILE

Needs matplotlib, which only this asks for (the extra ``plot``).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead_wire import delivery_policy
from fairlead_wire.delivery_policy import Delay, DeliveryPolicy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg")
RETRIES_DRAWN_MAX = 60
"""Number of retries shown of a policy; later ones are mostly alike, and thinner bars are unreadable."""
TITLE_CHARS_MAX = 90
"""Of one line."""
_PANEL_INCHES = (9.6, 4.2)
_DOTS_PER_INCH = 150
_COLOURS = {"linear": "#1b6ca8", "arithmetic": "#c2571a", "geometric": "#2e7d32", "exponential": "#111111"}
_PHASES = {"immediate": "#9e9e9e", "pre_backoff": "#4f9bd0", "backoff": "#1b6ca8", "post_backoff": "#0b3c5d"}
_WORDS = {
    "immediate": "at once",
    "pre_backoff": "at the minimum",
    "backoff": "growing",
    "post_backoff": "at the maximum",
}
_COINCIDE = "exponential"
"""Has the same delays as the geometric curve, and is drawn over it as a dashed line."""


def save(figure: Figure, file: Path) -> None:
    """Raises ``OSError``.  The same picture gives the same bytes."""
    metadata: dict[str, Any] = {"Date": None} if file.suffix == ".svg" else {}
    figure.savefig(file, dpi=_DOTS_PER_INCH, facecolor="white", metadata=metadata)


def draw(curves: Mapping[str, Sequence[Delay]], policy: DeliveryPolicy | None = None) -> Figure:
    """One panel for the curves, and one for the policy if there is one."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "fairlead"  # names in an SVG come from this, not from chance
    panels = 1 if policy is None else 2
    width, height = _PANEL_INCHES
    figure = Figure(figsize=(width, height * panels), layout="constrained", facecolor="white")
    axes = figure.subplots(panels, 1, squeeze=False)[:, 0]
    _curves(axes[0], curves)
    if policy is not None:
        _policy(axes[1], policy)
    return figure


def _curves(axes: Axes, curves: Mapping[str, Sequence[Delay]]) -> None:
    for name, delays in curves.items():
        over = name == _COINCIDE and "geometric" in curves
        axes.plot(
            range(1, len(delays) + 1),
            [each.seconds for each in delays],
            label=f"{name}, {delivery_policy.total_seconds(list(delays)):,.0f} s in all",
            color=_COLOURS[name],
            linestyle=(0, (2, 3)) if over else "solid",
            linewidth=1.4 if over else 2.2,
            marker="o",
            markersize=2.5 if over else 5,
        )
    _label(axes, "Delay before each retry, by backoff function")
    _legend(axes, "retry_backoff_function")


def _policy(axes: Axes, policy: DeliveryPolicy) -> None:
    delays = delivery_policy.schedule(policy)
    drawn = delays[:RETRIES_DRAWN_MAX]
    for phase, colour in _PHASES.items():
        found = [(number, each.seconds) for number, each in enumerate(drawn, 1) if each.phase == phase]
        if found:
            numbers, seconds = zip(*found, strict=True)
            axes.bar(numbers, seconds, color=colour, width=0.75, label=f"{phase}: {_WORDS[phase]}")
            if not any(seconds):  # a bar without height is not seen
                axes.plot(numbers, seconds, color=colour, marker="o", linestyle="none", clip_on=False)
    left_out = f" (the first {len(drawn):,} of {len(delays):,})" if len(drawn) < len(delays) else ""
    text = textwrap.fill(delivery_policy.policy_summary(policy), TITLE_CHARS_MAX)
    _label(axes, f"The given policy{left_out}:\n{text}")
    axes.set_xlim(0.5, max(len(drawn), 1) + 0.5)
    if drawn:
        _legend(axes, "phase")


def _legend(axes: Axes, title: str) -> None:
    """Placed beside the panel, where it covers nothing."""
    axes.legend(title=title, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), alignment="left")


def _label(axes: Axes, title: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel("number of the retry")
    axes.set_ylabel("delay in seconds")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
