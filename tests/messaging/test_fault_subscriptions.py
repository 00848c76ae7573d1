"""A short dose of the subscriptions' fault test; ``make faults ONLY=messaging`` is the long one."""

from __future__ import annotations

import pytest
from tests.faults import fault_subscriptions

SEED = 20261122


@pytest.mark.faults
def test_messaging_killed_while_it_pushes() -> None:
    """kill -9, an endpoint that fails, a dead letter topic that comes and goes: each message is counted once."""
    count = fault_subscriptions.run(4, SEED, print)
    assert count["acknowledged"] > 0, count
    assert count["lost"] == count["duplicated"] == count["untrue"] == 0, count
