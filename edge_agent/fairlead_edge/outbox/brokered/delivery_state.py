"""The states of one message on its way to a module, as a table.

    WAITING ──TAKE──▶ LEASED ──ACK──▶ DONE
                       ▲  │             ▲
                      TAKE│             │
                       │  ├──RETRY──▶ BACKOFF ──ACK──┘
                       └──┼────────────┘
                          └──GIVE_UP──▶ DEAD

WAITING  in its log; was never given out
LEASED   in a module's hands, until its lease ends
BACKOFF  abandoned, or its lease ended; waits for the time its policy says.  A late acknowledgement still counts
DONE     acknowledged
DEAD     the delivery policy allows no more attempts; a dead letter

The seed has one machine for each priority of an endpoint, for it sends one batch at a time and waits.  Modules take,
and several may take from one input: a message that fails holds up no other, so each has a state of its own, and the
priority has the checkpoint.
"""

from __future__ import annotations

import enum
from typing import Final

from fairlead_wire.errors import LocalError


class DeliveryState(enum.Enum):
    WAITING = "waiting"
    LEASED = "leased"
    BACKOFF = "backoff"
    DONE = "done"
    DEAD = "dead"


class DeliveryEvent(enum.Enum):
    TAKE = "take"
    """A module gets it."""
    ACK = "ack"
    """A module has done its work."""
    RETRY = "retry"
    """It was abandoned, or its lease ended; it is given out again at a time."""
    GIVE_UP = "give up"
    """The same, and the delivery policy allows no more attempts."""


TRANSITIONS: Final[dict[tuple[DeliveryState, DeliveryEvent], DeliveryState]] = {
    (DeliveryState.WAITING, DeliveryEvent.TAKE): DeliveryState.LEASED,
    (DeliveryState.LEASED, DeliveryEvent.ACK): DeliveryState.DONE,
    (DeliveryState.LEASED, DeliveryEvent.RETRY): DeliveryState.BACKOFF,
    (DeliveryState.LEASED, DeliveryEvent.GIVE_UP): DeliveryState.DEAD,
    (DeliveryState.BACKOFF, DeliveryEvent.TAKE): DeliveryState.LEASED,
    (DeliveryState.BACKOFF, DeliveryEvent.ACK): DeliveryState.DONE,
}


def step(state: DeliveryState, event: DeliveryEvent) -> DeliveryState:
    """The next state.  Raises ``LocalError`` where the table has none: the caller lost track of the state."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise LocalError(f"a message that is {state.value} takes no {event.value}") from None
