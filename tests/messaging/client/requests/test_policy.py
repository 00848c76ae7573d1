"""A delivery policy as it is sent."""

from __future__ import annotations

from fairlead_messaging.client import requests
from fairlead_wire.backoff.delivery import DeliveryPolicy


def test_only_what_a_person_would_write_is_sent() -> None:
    """Defaults stay the service's, so that they can change there."""
    assert requests._given(DeliveryPolicy()) == {}
    assert requests._given(DeliveryPolicy(minimum_delay=3, jitter="equal")) == {"minimum_delay": 3, "jitter": "equal"}
