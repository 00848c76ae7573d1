"""A short dose of `make faults ONLY=downstream` for the watches, through a proxy that harms them."""

from __future__ import annotations

import pytest
from tests.faults import fault_watches
from tests.faults.collect import held


@pytest.mark.verify
@pytest.mark.kube
@pytest.mark.faults
def test_broken_watches_cost_neither_time_nor_lists_nor_writes() -> None:
    """Ended, cut, stalled, garbled in bursts of changes: nothing late, listed anew or written twice."""
    count = fault_watches.run(60, 5, lambda _: None)
    assert count["kills"] >= 60
    assert held({**count, "name": "", "room": "downstream", "seed": 5, "error": ""}), count
