"""The words for how simulated nodes behave."""

from __future__ import annotations

from fairlead_cli.commands.bench import nodes
from fairlead_cli.simulation.behaviour import BEHAVIOURS


def test_the_promised_behaviours_can_be_asked_for() -> None:
    """`fairlead bench nodes --behaviour` offers exactly the words, the promised ones among them."""
    (option,) = [each for each in nodes.params if each.name == "behaviour"]
    assert tuple(option.type.choices) == BEHAVIOURS  # type: ignore[attr-defined]
    assert {"never-ack", "nack", "lose-acks", "slow"} <= set(BEHAVIOURS)
