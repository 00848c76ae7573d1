"""One priority of a brokered endpoint: leased messages, messages waiting for their next attempt, and the checkpoint.

Memory is bounded: once ``UNSETTLED_MAX`` messages were delivered and are not done, no new ones are delivered.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from fairlead_edge.outbox.delivery import StateTable
from fairlead_edge.outbox.outbox import Item, Refusal
from fairlead_edge.outbox.queues import NOTHING_DONE, Attempt, Checkpointer, QueueId
from fairlead_wire.delivery_policy import DeliveryPolicy, Uniform, next_delay

TAKE_BYTES_MAX: Final = 4 * 1024 * 1024
"""A response ends with the message that reaches this size."""
UNSETTLED_MAX: Final = 10_000
"""The most messages of one priority that were delivered and are not done."""
GIVEN_UP: Final = "retries_used_up"
"""The code of a dead letter whose delivery policy allows no more attempts."""
ABANDONED: Final = "the module gave it back"
LEASE_ENDED: Final = "its lease ended without an acknowledgement"


class DeliveryState(enum.Enum):
    """The states of one message on its way to a module; ``TRANSITIONS`` is the whole machine.

        WAITING ──TAKE──▶ LEASED ──ACK──▶ DONE
                           ▲  │             ▲
                          TAKE│             │
                           │  ├──RETRY──▶ BACKOFF ──ACK──┘
                           └──┼────────────┘
                              └──GIVE_UP──▶ DEAD

    WAITING  in its log; never delivered
    LEASED   leased to a module, until the lease ends
    BACKOFF  abandoned, or its lease ended; waits as the policy says.  A late acknowledgement still counts
    DONE     acknowledged
    DEAD     the delivery policy allows no more attempts; a dead letter

    The seed has one machine for each priority of an endpoint, because it sends one batch at a time and waits.  Modules
    pull, and several may pull from one input: a message that fails must not hold up others, so each has its own state
    and the priority has the checkpoint.
    """

    WAITING = "waiting"
    LEASED = "leased"
    BACKOFF = "backoff"
    DONE = "done"
    DEAD = "dead"


class DeliveryEvent(enum.Enum):
    TAKE = "take"
    """It is leased to a module."""
    ACK = "ack"
    """A module acknowledged it."""
    RETRY = "retry"
    """It was abandoned, or its lease ended; it will be delivered again."""
    GIVE_UP = "give up"
    """The same, and the delivery policy allows no more attempts."""


TRANSITIONS: Final = StateTable(
    "a message",
    {
        (DeliveryState.WAITING, DeliveryEvent.TAKE): DeliveryState.LEASED,
        (DeliveryState.LEASED, DeliveryEvent.ACK): DeliveryState.DONE,
        (DeliveryState.LEASED, DeliveryEvent.RETRY): DeliveryState.BACKOFF,
        (DeliveryState.LEASED, DeliveryEvent.GIVE_UP): DeliveryState.DEAD,
        (DeliveryState.BACKOFF, DeliveryEvent.TAKE): DeliveryState.LEASED,
        (DeliveryState.BACKOFF, DeliveryEvent.ACK): DeliveryState.DONE,
    },
)


class BrokeredFetch(msgspec.Struct, frozen=True, kw_only=True):
    """Fetch the next live messages of this queue above ``after``; with ``only``, just those of these offsets."""

    queue: QueueId
    after: int
    only: tuple[int, ...] = ()
    alone: bool = False
    """The message failed before: the module gets nothing else with it."""
    messages_max: int
    bytes_max: int


class BrokeredSettle(msgspec.Struct, frozen=True, kw_only=True):
    """Settle these offsets durably; then call ``settled``, or ``settle_failed`` if that failed."""

    queue: QueueId
    sent: tuple[int, ...] = ()
    refused: tuple[Refusal, ...] = ()
    checkpoint: int

    @property
    def offsets(self) -> tuple[int, ...]:
        return (*self.sent, *(refusal.offset for refusal in self.refused))


class Priority:
    """The messages of one priority, by offset.  Pure: times are seconds of the store's clock."""

    def __init__(self, queue: QueueId, checkpoint: int = NOTHING_DONE, attempts: Iterable[Attempt] = ()) -> None:
        self.queue = queue
        self._checkpointer = Checkpointer(checkpoint)
        self._cursor = checkpoint
        """Every message up to here was delivered; above it, only those in ``_attempts``."""
        self._has_more = True
        self._attempts: dict[int, Attempt] = {}
        self._offsets: dict[str, int] = {}
        """Offsets of ``_attempts`` and ``_settling`` by message id."""
        self._settling: dict[int, Attempt] = {}
        self._durable: list[int] = []
        """Settled offsets above the checkpoint."""
        for attempt in attempts:
            self._put(attempt)

    # ---- reads ----

    def attempts(self) -> list[Attempt]:
        """Messages that were delivered and are neither done nor being settled."""
        return list(self._attempts.values())

    def offset_of(self, id: str) -> int | None:
        """The message's offset; None if it was never delivered, is done, or is being settled."""
        offset = self._offsets.get(id)
        return offset if offset in self._attempts else None

    def is_out(self, offset: int) -> bool:
        """It is leased, or being settled."""
        attempt = self._attempts.get(offset)
        return offset in self._settling or (attempt is not None and attempt.leased)

    @property
    def leased(self) -> int:
        """Leased messages, including those whose lease ended and was not processed yet."""
        return sum(attempt.leased for attempt in self._attempts.values())

    @property
    def retrying(self) -> int:
        """Messages that failed and wait for their next attempt."""
        return sum(not attempt.leased for attempt in self._attempts.values())

    def next_time(self, now: float) -> float | None:
        """When the next lease ends, or the next retry is due; None if there is neither."""
        return min((attempt.until for attempt in self._attempts.values() if attempt.until > now), default=None)

    # ---- from the log to a module ----

    def appended(self) -> None:
        """Something was stored."""
        self._has_more = True

    def wanted(self, now: float, messages_max: int) -> BrokeredFetch | None:
        """What to read for a module that asks for up to ``messages_max``: due retries, oldest first, then new messages.

        Withdrawn messages are delivered together, each failed message alone.
        """
        due = [each for each in self._attempts.values() if not each.leased and each.until <= now]
        if due:
            due.sort(key=lambda attempt: attempt.offset)
            unfailed = tuple(each.offset for each in itertools.takewhile(lambda each: not each.number, due))
            if unfailed:
                return self._fetch(NOTHING_DONE, messages_max, unfailed[:messages_max])
            return msgspec.structs.replace(self._fetch(NOTHING_DONE, 1, (due[0].offset,)), alone=True)
        if not self._has_more or len(self._attempts) >= UNSETTLED_MAX:
            return None
        self._has_more = False
        known = sum(offset > self._cursor for offset in (*self._attempts, *self._settling))
        return self._fetch(self._cursor, min(messages_max, UNSETTLED_MAX - len(self._attempts)) + known)

    def fetched(
        self,
        fetch: BrokeredFetch,
        items: Sequence[tuple[Item, str]],
        now: float,
        *,
        messages_max: int,
        lease_seconds: float,
    ) -> list[Attempt]:
        """The store's answer, each message with its id; returns what the module gets, at most ``messages_max``."""
        size = sum(len(item.content) for item, _ in items)
        was_all = len(items) < fetch.messages_max and size < fetch.bytes_max
        if fetch.only:
            read = {item.offset for item, _ in items}
            last = fetch.only[-1] if was_all or not items else items[-1][0].offset
            self._forget(offset for offset in fetch.only if offset <= last and offset not in read)
        given: list[Attempt] = []
        for item, id in items:
            if len(given) == messages_max:
                was_all = False
                break
            if not fetch.only:
                self._cursor = max(self._cursor, item.offset)
            before = self._attempts.get(item.offset)
            is_free = before is None if not fetch.only else before is not None and not before.leased
            is_done = item.offset in self._durable or not self._checkpointer.admits(item.offset)  # while it was read
            if is_free and not is_done and item.offset not in self._settling and item.live(now):
                given.append(self._lease(item.offset, id, before, now + lease_seconds))
        if not fetch.only:
            self._has_more = self._has_more or not was_all
        return given

    def withdrawn(self, offset: int, now: float) -> Attempt | None:
        """The module disconnected before it got the message: this is no attempt, and it is available again at once."""
        attempt = self._attempts.get(offset)
        if attempt is None or not attempt.leased:
            return None
        return self._put(msgspec.structs.replace(attempt, number=attempt.number - 1, leased=False, until=now))

    # ---- answers of a module, or their absence ----

    def acked(self, offsets: Collection[int]) -> BrokeredSettle:
        """The module processed these."""
        for offset in offsets:
            TRANSITIONS.step(_state(self._attempts[offset]), DeliveryEvent.ACK)
        return self._settle(offsets, ())

    def abandoned(self, offset: int, now: float, policy: DeliveryPolicy, uniform: Uniform) -> Attempt | None:
        """The module abandoned it; returns its next attempt, or None if there is none: then call ``given_up``."""
        attempt = self._attempts[offset]
        return self._failed(attempt, now, policy, uniform) if attempt.leased else attempt

    def expire_leases(self, now: float, policy: DeliveryPolicy, uniform: Uniform) -> tuple[list[Attempt], list[int]]:
        """Ends the leases that have run out; returns what will be delivered again, and the offsets that are given
        up."""
        again: list[Attempt] = []
        never: list[int] = []
        for attempt in [each for each in self._attempts.values() if each.leased and each.until <= now]:
            retry = self._failed(attempt, attempt.until, policy, uniform)
            if retry is None:
                never.append(attempt.offset)
            else:
                again.append(retry)
        return again, never

    def given_up(self, offsets: Collection[int], why: str) -> BrokeredSettle:
        """These become dead letters."""
        refusals = tuple(self._refusal(offset, why) for offset in offsets)
        return self._settle((), refusals)

    # ---- results of the store ----

    def settled(self, settle: BrokeredSettle) -> None:
        """The settlement is on disk."""
        for offset in settle.offsets:
            del self._offsets[self._settling.pop(offset).id]
        self._durable += settle.offsets

    def settle_failed(self, settle: BrokeredSettle) -> None:
        """The store could not write the settlement: the messages stay as they were."""
        for offset in settle.offsets:
            self._put(self._settling.pop(offset))

    # ---- helpers ----

    def _fetch(self, after: int, messages_max: int, only: tuple[int, ...] = ()) -> BrokeredFetch:
        return BrokeredFetch(
            queue=self.queue, after=after, only=only, messages_max=messages_max, bytes_max=TAKE_BYTES_MAX
        )

    def _lease(self, offset: int, id: str, before: Attempt | None, until: float) -> Attempt:
        TRANSITIONS.step(DeliveryState.WAITING if before is None else _state(before), DeliveryEvent.TAKE)
        if before is None:
            return self._put(Attempt(offset=offset, id=id, number=1, leased=True, until=until))
        return self._put(msgspec.structs.replace(before, number=before.number + 1, leased=True, until=until))

    def _failed(self, attempt: Attempt, at: float, policy: DeliveryPolicy, uniform: Uniform) -> Attempt | None:
        delay = next_delay(
            policy,
            attempt.number - 1,
            uniform=uniform,
            waited_seconds=attempt.waited_seconds,
            previous_seconds=attempt.delay_seconds,
        )
        if delay is None:
            TRANSITIONS.step(_state(attempt), DeliveryEvent.GIVE_UP)
            return None
        TRANSITIONS.step(_state(attempt), DeliveryEvent.RETRY)
        return self._put(
            msgspec.structs.replace(
                attempt,
                leased=False,
                until=at + delay.seconds,
                delay_seconds=delay.seconds,
                waited_seconds=attempt.waited_seconds + delay.seconds,
            )
        )

    def _advance(self) -> None:
        """Moves the cursor past what was delivered already: after a start it is at the checkpoint."""
        durable = set(self._durable)
        while (above := self._cursor + 1) in self._attempts or above in self._settling or above in durable:
            self._cursor = above

    def _put(self, attempt: Attempt) -> Attempt:
        self._attempts[attempt.offset] = attempt
        self._offsets[attempt.id] = attempt.offset
        return attempt

    def _forget(self, offsets: Iterable[int]) -> None:
        """Drops messages that expired, were evicted or are damaged."""
        for offset in offsets:
            attempt = self._attempts.get(offset)
            if attempt is not None and not attempt.leased:
                del self._attempts[offset], self._offsets[attempt.id]
                self._durable.append(offset)

    def _refusal(self, offset: int, why: str) -> Refusal:
        number = self._attempts[offset].number
        return Refusal(offset, GIVEN_UP, f"delivered {number} times; the last time {why}")

    def _settle(self, sent: Collection[int], refused: tuple[Refusal, ...]) -> BrokeredSettle:
        """The settlement, with a checkpoint that passes nothing undone and nothing whose settlement is not durable."""
        going = [*sent, *(refusal.offset for refusal in refused)]
        for offset in going:
            self._settling[offset] = self._attempts.pop(offset)
        self._advance()
        open_ = (offset for offset in self._settling if offset not in set(going))
        remaining = [self._cursor + 1, *self._attempts, *open_]
        checkpoint = self._checkpointer.commit((*self._durable, *going), remaining)
        self._durable = [offset for offset in self._durable if offset > checkpoint]
        # A settlement still under way already advanced the checkpointer, and this one may be written before it.
        return BrokeredSettle(
            queue=self.queue,
            sent=tuple(sent),
            refused=refused,
            checkpoint=min([checkpoint, *(offset - 1 for offset in remaining)]),
        )


def _state(attempt: Attempt) -> DeliveryState:
    return DeliveryState.LEASED if attempt.leased else DeliveryState.BACKOFF
