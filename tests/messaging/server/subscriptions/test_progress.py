"""When a failed delivery is tried again."""

from __future__ import annotations

from fairlead_messaging.server.subscriptions import progress
from fairlead_messaging.server.subscriptions.subscription import SubscriptionRecord
from fairlead_wire.delivery_policy import DeliveryPolicy


def test_attempts_follow_the_policy_and_begin_anew() -> None:
    """Until none is left; Retry-After only lengthens."""
    policy = DeliveryPolicy(
        retries_with_no_delay=1, minimum_delay_retries=1, minimum_delay=5, maximum_delay=20, maximum_delay_retries=0,
        backoff_retries=0,
    )  # fmt: skip
    record = SubscriptionRecord(url="http://x")
    first = progress.failed(record, policy, "no", 1000, uniform=lambda: 0.5, retry_after_seconds=None)
    assert first is not None and (first.attempts, first.next_attempt_ms) == (1, 1000)
    second = progress.failed(first, policy, "no", 1000, uniform=lambda: 0.5, retry_after_seconds=None)
    assert second is not None and (second.attempts, second.next_attempt_ms, second.waited_seconds) == (2, 6000, 5.0)
    later = progress.failed(first, policy, "no", 1000, uniform=lambda: 0.5, retry_after_seconds=9)
    assert later is not None and later.next_attempt_ms == 10_000
    assert progress.failed(second, policy, "no", 1000, uniform=lambda: 0.5, retry_after_seconds=None) is None
    moved = progress.moved(second, "00", delivered=1)
    assert (moved.attempts, moved.waited_seconds, moved.position, moved.delivered) == (0, 0.0, "00", 1)
