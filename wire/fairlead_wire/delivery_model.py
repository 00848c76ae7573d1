"""A delivery policy as pydantic reads it, in the hub's settings and in a SyncRule.

    document ─DeliveryModel→ each key by itself ─check→ keys that must fit together ─policy()→ DeliveryPolicy

The agent and the messaging service read the same keys into ``delivery_policy.DeliveryPolicy``; a test keeps the two in
step.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

import pydantic
from pydantic import Field

from fairlead_wire import delivery_policy
from fairlead_wire.validation.model import Model

_LIMITS = Field(ge=0, le=delivery_policy.DELAY_SECONDS_LIMIT)
Seconds = Annotated[int, _LIMITS] | Annotated[float, _LIMITS]
"""An int stays an int: a policy given in whole seconds is computed in whole seconds."""


class DeliveryModel(Model):
    """When an undelivered message is sent again. The first attempt is not a retry."""

    retries_with_no_delay: int = 3
    """Number of immediate retries."""
    minimum_delay_retries: int = 3
    """Number of retries with `minimum_delay` after those."""
    minimum_delay: Seconds = 5
    """Shortest delay in seconds; above 0 for the curves that multiply it."""
    maximum_delay: Seconds = 30
    """Longest delay in seconds."""
    maximum_delay_retries: int = 3
    """Number of retries with `maximum_delay` at the end."""
    retry_backoff_function: Literal["linear", "arithmetic", "geometric", "exponential"] = "linear"
    """How the delay grows from the shortest to the longest."""
    ignore_subscription_override: bool = False
    """For topics: ignore a subscription's own policy."""
    backoff_retries: int | None = None
    """Number of retries while the delay grows; absent: one for each five seconds between the shortest and the
    longest."""
    retries_max: int | None = None
    """Maximum number of retries, whatever the phases specify."""
    jitter: Literal["none", "full", "equal", "decorrelated"] = "none"
    """How delays are randomized, so that many senders do not retry at the same time."""
    seed: int | None = None
    """Makes the jitter reproducible."""
    total_seconds_max: Seconds | None = None
    """No retry starts if the sum of all delays before it exceeds this."""
    compatibility: Literal["zaqar", "sns"] | None = None
    """Compute and validate like Zaqar, or keep to the limits of Amazon SNS."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        self.policy()
        return self

    def policy(self) -> delivery_policy.DeliveryPolicy:
        """Convert to the core's type.  Raises ``mistakes.Wrong`` if the keys contradict each other."""
        return delivery_policy.DeliveryPolicy(**self.model_dump())
