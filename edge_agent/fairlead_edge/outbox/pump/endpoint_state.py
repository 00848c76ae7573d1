"""The states of one stream of an endpoint (a priority, or a deferred topic of one), as a table.

    IDLE ──SEND──▶ SENDING ──NACK──▶ DRAINING ──RETRY──▶ BACKOFF ──DUE──▶ IDLE ──NACK──▶ DRAINING
     ▲               │ │                │  │
     ├──ANSWERED─────┘ │                │  └──GIVE_UP──▶ DEAD ──REVIVE──▶ IDLE
     └──LOST───────────┴────────────────┘

IDLE      nothing is unanswered; what waits may leave
SENDING   batches are unanswered; more may leave, up to the depth of the stream
DRAINING  an answer took nothing; nothing leaves until all answers are in
BACKOFF   waits for its retry time; less urgent priorities go on meanwhile
DEAD      the delivery policy allows no more retries; what waits is moved to the dead letters, until it is revived

The seed drops batches while an endpoint is dead; here they are dead letters, so "dead" is a place to look, not a loss.
``pump.Pump.next`` decides by these states; ``stream.Stream`` is the only one that takes a transition.
"""

from __future__ import annotations

import enum
from typing import Final

from fairlead_wire.errors import LocalError


class EndpointState(enum.Enum):
    IDLE = "idle"
    SENDING = "sending"
    DRAINING = "draining"
    BACKOFF = "backoff"
    DEAD = "dead"


class EndpointEvent(enum.Enum):
    SEND = "send"
    """A batch leaves."""
    ANSWERED = "answered"
    """The last answer is in, and all were good."""
    NACK = "nack"
    """An answer took nothing; of a topic that is deferred now, it was that of a batch with other topics."""
    LOST = "lost"
    """The link ended before the last answer."""
    RETRY = "retry"
    """The last answer is in; the failed batch goes again at a time."""
    GIVE_UP = "give up"
    """The last answer is in; the delivery policy allows no retry."""
    DUE = "due"
    """The retry time has come, or the wait was ended by a success elsewhere or by a new session."""
    REVIVE = "revive"
    """It was dead long enough, or a new session opened."""


TRANSITIONS: Final[dict[tuple[EndpointState, EndpointEvent], EndpointState]] = {
    (EndpointState.IDLE, EndpointEvent.SEND): EndpointState.SENDING,
    (EndpointState.IDLE, EndpointEvent.NACK): EndpointState.DRAINING,
    (EndpointState.SENDING, EndpointEvent.SEND): EndpointState.SENDING,
    (EndpointState.SENDING, EndpointEvent.ANSWERED): EndpointState.IDLE,
    (EndpointState.SENDING, EndpointEvent.NACK): EndpointState.DRAINING,
    (EndpointState.SENDING, EndpointEvent.LOST): EndpointState.IDLE,
    (EndpointState.DRAINING, EndpointEvent.NACK): EndpointState.DRAINING,
    (EndpointState.DRAINING, EndpointEvent.LOST): EndpointState.IDLE,
    (EndpointState.DRAINING, EndpointEvent.RETRY): EndpointState.BACKOFF,
    (EndpointState.DRAINING, EndpointEvent.GIVE_UP): EndpointState.DEAD,
    (EndpointState.BACKOFF, EndpointEvent.DUE): EndpointState.IDLE,
    (EndpointState.DEAD, EndpointEvent.REVIVE): EndpointState.IDLE,
}


def step(state: EndpointState, event: EndpointEvent) -> EndpointState:
    """The next state.  Raises ``LocalError`` where the table has none: the caller lost track of the state."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise LocalError(f"an endpoint that is {state.value} takes no {event.value}") from None
