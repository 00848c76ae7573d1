"""When a batch that the hub could not take goes again: the shared delivery policy, with the agent's own defaults."""

from __future__ import annotations

from typing import Final, Literal

from fairlead_wire import delivery_policy
from fairlead_wire.delivery_policy import DeliveryPolicy

UPSTREAM_AGAIN_MAX: Final = 190_000
"""Retries at the longest delay: at one a minute, 132 days."""


class UpstreamDelivery(DeliveryPolicy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a batch that the hub could not take goes again; a lost link costs no retry.

    1, 2, 4 … 60 s, then every 60 s, spread out: practically without end, as with store and forward in Azure IoT Edge.
    A priority whose retries are used up moves its messages to the dead letters for a while, and tries again.
    """

    retries_with_no_delay: int = 0
    minimum_delay_retries: int = 0
    minimum_delay: int | float = 1
    maximum_delay: int | float = 60
    maximum_delay_retries: int = UPSTREAM_AGAIN_MAX
    retry_backoff_function: delivery_policy.Curve = "exponential"
    backoff_retries: int | None = 7
    jitter: Literal["none", "full", "equal", "decorrelated"] = "equal"


UPSTREAM_POLICY = UpstreamDelivery()
