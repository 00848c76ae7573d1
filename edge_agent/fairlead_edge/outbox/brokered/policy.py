"""When a message that a module did not acknowledge is given out again: the shared delivery policy, with defaults."""

from __future__ import annotations

from typing import Final

from fairlead_wire import delivery_policy
from fairlead_wire.delivery_policy import DeliveryPolicy

DAY_OF_MINUTES: Final = 1440


class BrokeredDelivery(DeliveryPolicy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At once the first time, then after 1 to 60 s, then every 60 s for a day; then a dead letter."""

    retries_with_no_delay: int = 1
    minimum_delay_retries: int = 0
    minimum_delay: int | float = 1
    maximum_delay: int | float = 60
    maximum_delay_retries: int = DAY_OF_MINUTES
    retry_backoff_function: delivery_policy.Curve = "exponential"
    backoff_retries: int | None = 7


BROKERED_POLICY = BrokeredDelivery()
