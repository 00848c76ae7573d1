"""The agent's own delivery policies."""

from __future__ import annotations

from fairlead_edge.outbox.pump.policy import UPSTREAM_POLICY, UpstreamDelivery
from fairlead_wire import delivery_policy


def test_messages_go_again_practically_without_end() -> None:
    """First soon, then every minute, for months."""
    waits = [delivery_policy.delay(UPSTREAM_POLICY, retry) for retry in range(9)]
    assert [each and round(each.seconds) for each in waits] == [1, 2, 4, 8, 15, 30, 60, 60, 60]
    assert delivery_policy.total_seconds(delivery_policy.schedule(UPSTREAM_POLICY)) > 30 * 86_400
    assert UpstreamDelivery() == UPSTREAM_POLICY
