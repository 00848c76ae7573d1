"""What both kinds of delivery share: retry policies with the agent's defaults, and state tables.

The pump (``pump.stream``) delivers to the hub, ``brokered.priority`` to modules on this node.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, Generic, Literal, TypeVar

from fairlead_wire import delivery_policy
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.errors import LocalError

RETRIES_AT_MAXIMUM: Final = 190_000
"""Upstream retries at the longest delay: at one a minute, 132 days."""
MINUTES_PER_DAY: Final = 1440


class UpstreamDelivery(DeliveryPolicy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a batch that the hub did not accept is sent again; a lost link does not count as a retry.

    After 1, 2, 4 … 60 s, then every 60 s, with jitter: practically forever, like store and forward in Azure IoT Edge.
    A priority that has used up its retries moves its messages to the dead letters for a while, then tries again.
    """

    retries_with_no_delay: int = 0
    minimum_delay_retries: int = 0
    minimum_delay: int | float = 1
    maximum_delay: int | float = 60
    maximum_delay_retries: int = RETRIES_AT_MAXIMUM
    retry_backoff_function: delivery_policy.Curve = "exponential"
    backoff_retries: int | None = 7
    jitter: Literal["none", "full", "equal", "decorrelated"] = "equal"


class BrokeredDelivery(DeliveryPolicy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a message that a module did not acknowledge is delivered again.

    At once the first time, then after 1 to 60 s, then every 60 s for a day; after that it is a dead letter.
    """

    retries_with_no_delay: int = 1
    minimum_delay_retries: int = 0
    minimum_delay: int | float = 1
    maximum_delay: int | float = 60
    maximum_delay_retries: int = MINUTES_PER_DAY
    retry_backoff_function: delivery_policy.Curve = "exponential"
    backoff_retries: int | None = 7


UPSTREAM_POLICY: Final = UpstreamDelivery()
BROKERED_POLICY: Final = BrokeredDelivery()

S = TypeVar("S", bound=enum.Enum)
E = TypeVar("E", bound=enum.Enum)


class StateTable(dict[tuple[S, E], S], Generic[S, E]):
    """The next state by state and event.  ``subject`` names the state machine in error messages."""

    def __init__(self, subject: str, transitions: Mapping[tuple[S, E], S]) -> None:
        super().__init__(transitions)
        self._subject = subject

    def step(self, state: S, event: E) -> S:
        """The next state.  Raises ``LocalError`` if the table has none: the caller lost track of the state."""
        try:
            return self[state, event]
        except KeyError:
            raise LocalError(f"{self._subject} in state {state.value!r} cannot handle {event.value!r}") from None
