"""A delivery policy in one line."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_edge.outbox.delivery import UPSTREAM_POLICY
from fairlead_wire.backoff.delivery import DeliveryPolicy
from fairlead_wire.backoff.delivery_text import summary

NONE: dict[str, Any] = {
    "retries_with_no_delay": 0,
    "minimum_delay_retries": 0,
    "maximum_delay_retries": 0,
    "backoff_retries": 0,
}


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (DeliveryPolicy(**NONE), "no retries"),
        (DeliveryPolicy(), "3 retries at once, then 3 every 5 s, then 5 from 5 to 30 s (linear), then 3 every 30 s"),
        (DeliveryPolicy(**{**NONE, "backoff_retries": 1}), "1 retry after 5 s"),
        (
            DeliveryPolicy(**{**NONE, "minimum_delay_retries": 2}, retries_max=1, total_seconds_max=0.5, jitter="full"),
            "2 retries every 5 s; at most 1 retry; at most 0.5 s of waiting; jitter full",
        ),
        (UPSTREAM_POLICY, "7 retries from 1 to 60 s (exponential), then 190000 every 60 s; jitter equal"),
    ],
)
def test_it_says_what_happens_when_nothing_answers_otherwise(policy: DeliveryPolicy, text: str) -> None:
    """Phase by phase, then what ends it."""
    assert summary(policy) == text
