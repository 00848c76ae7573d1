"""A short dose of the fault test with two hubs: the leader is stopped for longer than its Lease, and goes on."""

from __future__ import annotations

import pytest
from tests.faults import fault_hubs
from tests.faults.collect import held


@pytest.mark.verify
@pytest.mark.kube
@pytest.mark.faults
def test_a_suspended_leader_is_silent_when_it_resumes() -> None:
    """No write and no frame under its old number; the other served meanwhile."""
    count = fault_hubs.run(1, 5, lambda _: None, pause_seconds=20.0)
    assert count["kills"] == 1
    assert held({**count, "name": "", "room": "downstream", "seed": 5, "error": ""}), count
