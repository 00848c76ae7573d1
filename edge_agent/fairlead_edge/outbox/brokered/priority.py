"""One priority of a brokered endpoint: what is in modules' hands, what waits for its next attempt, the checkpoint.

Memory is bounded: ``UNSETTLED_MAX`` messages given out and not done, beyond which only those are given out again.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from fairlead_edge.outbox.attempt import Attempt
from fairlead_edge.outbox.brokered.delivery_state import DeliveryEvent, DeliveryState, step
from fairlead_edge.outbox.brokered.effects import BrokeredFetch, BrokeredSettle
from fairlead_edge.outbox.checkpoint import NOTHING_DONE, Checkpointer
from fairlead_edge.outbox.outbox import Item, Refusal
from fairlead_edge.outbox.queue_id import QueueId
from fairlead_wire.delivery_policy import DeliveryPolicy, Uniform, next_delay

TAKE_BYTES_MAX: Final = 4 * 1024 * 1024
"""An answer ends with the message that reaches it."""
UNSETTLED_MAX: Final = 10_000
"""Messages of one priority that were given out and are not done."""
GIVEN_UP: Final = "retries_used_up"
"""The code of a dead letter whose delivery policy allows no more attempts."""
ABANDONED: Final = "the module gave it back"
RAN_OUT: Final = "its lease ended without an acknowledgement"


class Priority:
    """Its messages by offset.  Pure: times are seconds of the store's clock."""

    def __init__(self, queue: QueueId, checkpoint: int = NOTHING_DONE, attempts: Iterable[Attempt] = ()) -> None:
        self.queue = queue
        self._checkpointer = Checkpointer(checkpoint)
        self._cursor = checkpoint
        """Up to here every message was given out; above it, those of ``_attempts`` were."""
        self._has_more = True
        self._attempts: dict[int, Attempt] = {}
        self._offsets: dict[str, int] = {}
        """Of ``_attempts`` and ``_settling``, by the message's id."""
        self._settling: dict[int, Attempt] = {}
        self._durable: list[int] = []
        """Settled offsets the checkpoint has not passed yet."""
        for attempt in attempts:
            self._put(attempt)

    # ---- reads ----

    def attempts(self) -> list[Attempt]:
        """What was given out and is neither done nor being settled."""
        return list(self._attempts.values())

    def offset_of(self, id: str) -> int | None:
        """None when the message was never given out, or is done, or is being settled."""
        offset = self._offsets.get(id)
        return offset if offset in self._attempts else None

    def is_out(self, offset: int) -> bool:
        """In a module's hands, or just done."""
        attempt = self._attempts.get(offset)
        return offset in self._settling or (attempt is not None and attempt.leased)

    @property
    def leased(self) -> int:
        """Messages in modules' hands, or of which it was not noticed yet that the lease ended."""
        return sum(attempt.leased for attempt in self._attempts.values())

    @property
    def retrying(self) -> int:
        """Messages that failed and wait for their next attempt."""
        return sum(not attempt.leased for attempt in self._attempts.values())

    def next_time(self, now: float) -> float | None:
        """When the next lease ends, or the next message is due; None when there is no such time ahead."""
        return min((attempt.until for attempt in self._attempts.values() if attempt.until > now), default=None)

    # ---- from the log to a module ----

    def appended(self) -> None:
        """Something was stored."""
        self._has_more = True

    def wanted(self, now: float, messages_max: int) -> BrokeredFetch | None:
        """What to read for a module that takes so many: first what is due again, the oldest first, then what is new.

        What was withdrawn goes together; each that failed goes alone."""
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
        """The store's answer, each message with its id: which of them the module gets, at most ``messages_max``."""
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
        """The module was gone before it got the answer: this was no attempt, and the next one may have it at once."""
        attempt = self._attempts.get(offset)
        if attempt is None or not attempt.leased:
            return None
        return self._put(msgspec.structs.replace(attempt, number=attempt.number - 1, leased=False, until=now))

    # ---- what a module answers, or does not ----

    def acked(self, offsets: Collection[int]) -> BrokeredSettle:
        """These are done."""
        for offset in offsets:
            step(_state(self._attempts[offset]), DeliveryEvent.ACK)
        return self._settle(offsets, ())

    def abandoned(self, offset: int, now: float, policy: DeliveryPolicy, uniform: Uniform) -> Attempt | None:
        """The module gave it back: its next attempt.  None: there is none, and ``given_up`` is to be called."""
        attempt = self._attempts[offset]
        return self._failed(attempt, now, policy, uniform) if attempt.leased else attempt

    def run_out(self, now: float, policy: DeliveryPolicy, uniform: Uniform) -> tuple[list[Attempt], list[int]]:
        """Leases that ended: what is given out again at its time, and the offsets of what is given up."""
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

    # ---- what the store did ----

    def settled(self, settle: BrokeredSettle) -> None:
        """It is on disk."""
        for offset in settle.offsets:
            del self._offsets[self._settling.pop(offset).id]
        self._durable += settle.offsets

    def not_settled(self, settle: BrokeredSettle) -> None:
        """The store could not: all is as before it was asked."""
        for offset in settle.offsets:
            self._put(self._settling.pop(offset))

    # ---- parts ----

    def _fetch(self, after: int, messages_max: int, only: tuple[int, ...] = ()) -> BrokeredFetch:
        return BrokeredFetch(
            queue=self.queue, after=after, only=only, messages_max=messages_max, bytes_max=TAKE_BYTES_MAX
        )

    def _lease(self, offset: int, id: str, before: Attempt | None, until: float) -> Attempt:
        step(DeliveryState.WAITING if before is None else _state(before), DeliveryEvent.TAKE)
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
            step(_state(attempt), DeliveryEvent.GIVE_UP)
            return None
        step(_state(attempt), DeliveryEvent.RETRY)
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
        """After a start the cursor stands at the checkpoint: what was given out next to it need not be read again."""
        durable = set(self._durable)
        while (above := self._cursor + 1) in self._attempts or above in self._settling or above in durable:
            self._cursor = above

    def _put(self, attempt: Attempt) -> Attempt:
        self._attempts[attempt.offset] = attempt
        self._offsets[attempt.id] = attempt.offset
        return attempt

    def _forget(self, offsets: Iterable[int]) -> None:
        """They are not there any more: expired, evicted or damaged."""
        for offset in offsets:
            attempt = self._attempts.get(offset)
            if attempt is not None and not attempt.leased:
                del self._attempts[offset], self._offsets[attempt.id]
                self._durable.append(offset)

    def _refusal(self, offset: int, why: str) -> Refusal:
        number = self._attempts[offset].number
        return Refusal(offset, GIVEN_UP, f"given out {number} times; the last time {why}")

    def _settle(self, sent: Collection[int], refused: tuple[Refusal, ...]) -> BrokeredSettle:
        """The checkpoint to write with it passes nothing that is not done, or done and not durable yet."""
        going = [*sent, *(refusal.offset for refusal in refused)]
        for offset in going:
            self._settling[offset] = self._attempts.pop(offset)
        self._advance()
        open_ = (offset for offset in self._settling if offset not in set(going))
        remaining = [self._cursor + 1, *self._attempts, *open_]
        checkpoint = self._checkpointer.commit((*self._durable, *going), remaining)
        self._durable = [offset for offset in self._durable if offset > checkpoint]
        # Advanced already by a settlement still under way: this one may overtake it on its way to the disk.
        return BrokeredSettle(
            queue=self.queue,
            sent=tuple(sent),
            refused=refused,
            checkpoint=min([checkpoint, *(offset - 1 for offset in remaining)]),
        )


def _state(attempt: Attempt) -> DeliveryState:
    return DeliveryState.LEASED if attempt.leased else DeliveryState.BACKOFF
