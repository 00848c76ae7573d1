"""The states one priority of one endpoint goes through, as a table.

    Idle ─SendMessage▶ Sending ─Checkpoint▶ Checkpointing ─Succeed▶ Idle
                         │ ▲ Fail                │ Fail
                         ▼ │ Retry               ▼
                        Failing ◀────────────────┘
                         │ Die (the delivery policy allows no further retry)
                         ▼
    DeadProcess ─Checkpoint▶ DeadCheckpointing ─DeadSucceed▶ DeadIdle ─SendMessage▶ DeadProcess
         └─Revive (dead long enough)▶ Sending

The original drops batches while it is dead; here the dead states move them to the dead letters, so "dead" is a
place to look, not a loss.  ``Throw`` is the original's variant without a store: the batch goes back to its caller.
"""

from __future__ import annotations

import enum
from typing import Final

from fairlead_wire.errors import LocalError


class State(enum.Enum):
    IDLE = "idle"
    SENDING = "sending"
    CHECKPOINTING = "checkpointing"
    FAILING = "failing"
    DEAD_IDLE = "dead-idle"
    DEAD_PROCESS = "dead-process"
    DEAD_CHECKPOINTING = "dead-checkpointing"
    CLOSED = "closed"


class Command(enum.Enum):
    SEND_MESSAGE = "send message"
    CHECKPOINT = "checkpoint"
    SUCCEED = "succeed"
    FAIL = "fail"
    RETRY = "retry"
    DIE = "die"
    THROW = "throw"
    REVIVE = "revive"
    DEAD_SUCCEED = "dead succeed"
    UPDATE_ENDPOINT = "update endpoint"
    CLOSE = "close"


TRANSITIONS: Final[dict[tuple[State, Command], State]] = {
    (State.IDLE, Command.SEND_MESSAGE): State.SENDING,
    (State.IDLE, Command.UPDATE_ENDPOINT): State.IDLE,
    (State.IDLE, Command.CLOSE): State.CLOSED,
    (State.SENDING, Command.CHECKPOINT): State.CHECKPOINTING,
    (State.SENDING, Command.FAIL): State.FAILING,
    (State.SENDING, Command.DIE): State.DEAD_PROCESS,
    (State.SENDING, Command.THROW): State.IDLE,
    (State.CHECKPOINTING, Command.SUCCEED): State.IDLE,
    (State.CHECKPOINTING, Command.FAIL): State.FAILING,
    (State.CHECKPOINTING, Command.DIE): State.DEAD_PROCESS,
    (State.CHECKPOINTING, Command.THROW): State.IDLE,
    (State.CHECKPOINTING, Command.SEND_MESSAGE): State.SENDING,
    (State.FAILING, Command.RETRY): State.SENDING,
    (State.FAILING, Command.UPDATE_ENDPOINT): State.SENDING,
    (State.FAILING, Command.DIE): State.DEAD_PROCESS,
    (State.FAILING, Command.CLOSE): State.CLOSED,
    (State.DEAD_IDLE, Command.SEND_MESSAGE): State.DEAD_PROCESS,
    (State.DEAD_IDLE, Command.UPDATE_ENDPOINT): State.IDLE,
    (State.DEAD_IDLE, Command.CLOSE): State.CLOSED,
    (State.DEAD_PROCESS, Command.REVIVE): State.SENDING,
    (State.DEAD_PROCESS, Command.CHECKPOINT): State.DEAD_CHECKPOINTING,
    (State.DEAD_CHECKPOINTING, Command.DEAD_SUCCEED): State.DEAD_IDLE,
    (State.CLOSED, Command.SEND_MESSAGE): State.CLOSED,
}


def step(state: State, command: Command) -> State:
    """The next state.  Raises ``LocalError`` where the table has none: the caller lost track of the state."""
    try:
        return TRANSITIONS[state, command]
    except KeyError:
        raise LocalError(f"an endpoint that is {state.value} takes no {command.value}") from None
