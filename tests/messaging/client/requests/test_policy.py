"""A delivery policy as it is sent."""

from __future__ import annotations

from fairlead_messaging.client.requests import policy
from fairlead_wire.delivery_policy import DeliveryPolicy


def test_only_what_a_person_would_write_is_sent() -> None:
    """Defaults stay the service's, so that they can change there."""
    assert policy.given(DeliveryPolicy()) == {}
    assert policy.given(DeliveryPolicy(minimum_delay=3, jitter="equal")) == {"minimum_delay": 3, "jitter": "equal"}
