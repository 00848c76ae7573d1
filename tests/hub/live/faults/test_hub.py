"""A short dose of `make faults ONLY=downstream` for the hub, on real processes and a real API server."""

from __future__ import annotations

import pytest
from tests.faults import fault_hub
from tests.faults.collect import held


@pytest.mark.verify
@pytest.mark.kube
@pytest.mark.faults
def test_after_kills_and_dark_links_all_records_agree() -> None:
    """Hub, edge and API server killed, links dark, acks lost, one node slow: edge equals cluster, records are true."""
    count = fault_hub.run(4, 3, lambda _: None)
    assert count["kills"] == 4
    assert held({**count, "name": "", "room": "downstream", "seed": 3, "error": ""}), count
