"""What tests of the real agent begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.edges.edge_agent import EdgeAgent


@pytest.fixture
def agents() -> Iterator[list[EdgeAgent]]:
    """Agents that the test adds; none outlives it."""
    started: list[EdgeAgent] = []
    yield started
    for agent in started:
        if agent.running is not None:
            agent.kill()
