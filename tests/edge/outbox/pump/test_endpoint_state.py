"""The state table: every transition of the original, and nothing else."""

from __future__ import annotations

import itertools

import pytest

from fairlead_edge.outbox.pump.endpoint_state import TRANSITIONS, Command, State, step
from fairlead_wire.errors import LocalError

EXPECTED = """
idle: send message → sending, update endpoint → idle, close → closed
sending: checkpoint → checkpointing, fail → failing, die → dead-process, throw → idle
checkpointing: succeed → idle, fail → failing, die → dead-process, throw → idle, send message → sending
failing: retry → sending, update endpoint → sending, die → dead-process, close → closed
dead-idle: send message → dead-process, update endpoint → idle, close → closed
dead-process: revive → sending, checkpoint → dead-checkpointing
dead-checkpointing: dead succeed → dead-idle
closed: send message → closed
"""


def expected() -> dict[tuple[State, Command], State]:
    table = {}
    for line in EXPECTED.strip().splitlines():
        state, _, transitions = line.partition(": ")
        for transition in transitions.split(", "):
            command, _, following = transition.partition(" → ")
            table[State(state), Command(command)] = State(following)
    return table


@pytest.mark.parametrize(("state", "command"), list(itertools.product(State, Command)))
def test_every_pair_of_state_and_command(state: State, command: Command) -> None:
    """Where the original has a transition, that one; elsewhere the caller lost track and is told."""
    following = expected().get((state, command))
    if following is None:
        with pytest.raises(LocalError, match=state.value):
            step(state, command)
    else:
        assert step(state, command) is following


def test_the_table_has_nothing_more() -> None:
    """The words above are the whole table."""
    assert expected() == TRANSITIONS
