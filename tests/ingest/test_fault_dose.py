"""A short dose of `make faults ONLY=ingest`: a worker, a driver, a JVM or the service is killed under a stream."""

from __future__ import annotations

import pytest
from tests.faults import fault_ingest


@pytest.mark.faults
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_every_message_is_one_row_whoever_is_killed() -> None:
    """Nothing lost, nothing twice."""
    count = fault_ingest.run(2, 20261120, print)
    assert (count["lost"], count["duplicated"], count["untrue"]) == (0, 0, 0)
    assert count["acknowledged"] > 0
