"""One priority of the pump: its state machine, its checkpointer, where it is in its log, and what it waits for."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_edge.outbox.checkpoint import Checkpointer
from fairlead_edge.outbox.pump.endpoint_state import Command, State, step
from fairlead_edge.outbox.queue_id import QueueId
from fairlead_wire.delivery import DeliveryPolicy, Uniform, next_delay
from fairlead_wire.message import Nack

BATCH_MESSAGES_MAX: Final = 256
BATCH_BYTES_MAX: Final = 256 * 1024
"""A batch ends with the message that reaches it."""
PROBE_MESSAGES: Final = 16
"""Size of the batch that finds out whether a failure is over; each success doubles it, up to a full batch."""
RETRY_AFTER_SECONDS_MIN: Final = 0.1
RETRY_AFTER_SECONDS_MAX: Final = 3600.0
"""What a hub may ask for; beyond, it is taken for a mistake."""
REVIVE_SECONDS: Final = 30.0
"""How long a priority whose retries were used up sends nothing and moves what it has to the dead letters."""
RATIO_DECAY: Final = 0.9
"""How slowly a stream that packs well is believed to: one batch that does not is taken for the rule at once."""
RATIO_MIN: Final = 0.02


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why nothing of a queue is taken: since when (the pump's clock), the last answer, and the next try."""

    since: float
    code: str
    reason: str
    attempts: int
    retry_at: float | None


class Stream:
    """One priority: its state machine, its checkpointer, and where it is in its log."""

    def __init__(self, queue: QueueId, checkpoint: int) -> None:
        self.queue = queue
        self.state = State.IDLE
        self.checkpointer = Checkpointer(checkpoint)
        self.cursor = checkpoint
        self.waiting = True
        self.turn = 0
        self.unanswered: dict[int, tuple[int, ...]] = {}
        self.settling: dict[int, tuple[int, ...]] = {}
        self.durable: list[int] = []
        """Settled offsets the checkpoint has not passed yet."""
        self.failed_from: int | None = None
        self.failure: Nack | None = None
        self.troubled_since: float | None = None
        """When the first answer came that took nothing; None once one took something."""
        self.last_failure: Nack | None = None
        self.attempts = 0
        self.previous_seconds = 0.0
        self.retry_at: float | None = None
        self.dead_since = 0.0
        self.messages_max = BATCH_MESSAGES_MAX
        self.ratio = 1.0
        """Bytes on the link for each byte of content."""
        self.depth = 1
        """Batches of this priority that may be unanswered now.  One after a failure: a cloud that comes back while
        several are in flight would take the later ones and miss the first."""

    def command(self, command: Command) -> None:
        self.state = step(self.state, command)

    def commit(self, offsets: tuple[int, ...]) -> int:
        """The checkpoint to write together with the settlement of ``offsets``.

        It may not pass what is unanswered, failed, to be fetched (again), or answered but not durable yet: after a
        crash that would count as done without having been noted anywhere.
        """
        remaining = [self.cursor + 1, *(min(batch) for batch in (*self.unanswered.values(), *self.settling.values()))]
        if self.failed_from is not None:
            remaining.append(self.failed_from)
        # Advanced already by a settlement still under way: this one may overtake it on its way to the disk.
        checkpoint = min([self.checkpointer.commit((*self.durable, *offsets), remaining), *(o - 1 for o in remaining)])
        self.durable = [offset for offset in self.durable if offset > checkpoint]
        return checkpoint

    def go_back(self, offset: int) -> None:
        """Start again at ``offset``; a fetch under way is void."""
        self.cursor = min(self.cursor, offset - 1)
        self.turn += 1
        self.waiting = True

    def packed(self, content: int, size: int) -> None:
        """A batch of so much content became a frame of this size."""
        ratio = max(RATIO_MIN, size / max(1, content))
        self.ratio = max(ratio, RATIO_DECAY * self.ratio + (1 - RATIO_DECAY) * ratio)

    def content_bytes(self, frame_bytes: int) -> int:
        """How much content makes a frame of this size."""
        return min(BATCH_BYTES_MAX, max(1, int(frame_bytes / self.ratio)))

    def failed(self, answer: Nack, now: float) -> None:
        """An answer took nothing."""
        self.last_failure = answer
        if self.troubled_since is None:
            self.troubled_since = now

    def trouble(self) -> Trouble | None:
        """None while what is sent is taken."""
        if self.troubled_since is None or self.last_failure is None:
            return None
        return Trouble(
            since=self.troubled_since,
            code=self.last_failure.code,
            reason=self.last_failure.reason,
            attempts=self.attempts,
            retry_at=self.retry_at,
        )

    def start(self, now: float) -> None:
        """Something of it leaves, or is buried."""
        match self.state:
            case State.IDLE | State.CHECKPOINTING | State.DEAD_IDLE:
                self.command(Command.SEND_MESSAGE)
            case State.FAILING:
                self.command(Command.RETRY)
            case _:
                pass  # joins what is being sent
        if self.state is State.DEAD_PROCESS and now - self.dead_since >= REVIVE_SECONDS:
            self.command(Command.REVIVE)

    def nothing_to_send(self) -> None:
        """All that was to be retried has expired meanwhile."""
        if self.state is State.FAILING:
            self.command(Command.RETRY)
        if self.state is State.SENDING and not self.unanswered:
            self.command(Command.CHECKPOINT)
            if not self.settling:
                self.command(Command.SUCCEED)

    def wait_or_die(self, failure: Nack, policy: DeliveryPolicy, uniform: Uniform, now: float) -> None:
        """All answers are in and one of them took nothing: when it goes again, or that it does not."""
        if failure.permanent:
            self.retry_at = now
            return
        delay = next_delay(policy, self.attempts, uniform=uniform, previous_seconds=self.previous_seconds)
        if delay is None:
            self.command(Command.DIE)
            self.dead_since = now
            return
        self.attempts += 1
        self.previous_seconds = delay.seconds
        self.messages_max = PROBE_MESSAGES
        # A hub that says when knows better than our curve, within reason, and the probe is small.
        asked = failure.retry_after
        wait = delay.seconds if asked is None else min(max(asked, RETRY_AFTER_SECONDS_MIN), RETRY_AFTER_SECONDS_MAX)
        self.retry_at = now + wait
