"""One brokered endpoint: which message a module gets next, and the outcome of those it holds.

    wanted ─Fetch▶ (store) ─fetched▶ FetchResult ▶ (noted on disk) ▶ module ─ack | abandon | silence▶ Settle ▶ (store)

The rules:

- the most urgent priority with an available message comes first; within a priority, due retries come before new
  messages, each in the order of acceptance;
- a message is leased to one module at a time, until it is acknowledged or abandoned or its lease ends;
- a failed message waits as the delivery policy says and blocks no other; when the policy allows no more attempts, it
  becomes a dead letter;
- a failed message is delivered alone: if it is the one that crashes the module, no other message fails with it again;
- an acknowledgement counts even after the lease ended, while the message waits or is leased again: the work was done;
- at most ``LEASED_MAX`` messages are leased at once: a module that never acknowledges gets no more.

Pure: the store's clock (seconds) and the random numbers for jitter are arguments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.brokered.priority import ABANDONED, LEASE_ENDED, BrokeredFetch, BrokeredSettle, Priority
from fairlead_edge.outbox.delivery import BROKERED_POLICY
from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.queues import NOTHING_DONE, Attempt, QueueId
from fairlead_wire.delivery_policy import DeliveryPolicy, Uniform

LEASE_SECONDS: Final = 60.0
"""The default lease."""
LEASE_SECONDS_MIN: Final = 0.1
LEASE_SECONDS_MAX: Final = 3600.0
LEASED_MAX: Final = 1000
"""The most messages one endpoint may have leased at once."""


class Leased(msgspec.Struct, frozen=True, kw_only=True):
    """A message leased to a module."""

    id: str
    priority: int
    message: envelope.StoredMessage
    attempt: int


class FetchResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a fetch: messages for the module, attempts to record on disk, and what stays in the log."""

    queue: QueueId
    leased: tuple[Leased, ...]
    attempts: tuple[Attempt, ...]
    left: tuple[int, ...]


class BrokeredFailed(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of one queue whose delivery failed: to be delivered again later, or to become dead letters."""

    queue: QueueId
    again: tuple[Attempt, ...]
    settle: BrokeredSettle | None


class Endpoint:
    """The decisions for one endpoint.  Not thread-safe; the driver performs the effects, one ``wanted`` at a time."""

    def __init__(self, *, policy: DeliveryPolicy = BROKERED_POLICY, uniform: Uniform) -> None:
        self._policy = policy
        self._uniform = uniform
        self._priorities: dict[int, Priority] = {}

    # ---- events ----

    def found(self, queue: QueueId, checkpoint: int, attempts: Iterable[Attempt]) -> list[int]:
        """A queue was found on disk; returns the offsets that are leased."""
        kept = list(attempts)
        self._priorities[queue.priority] = Priority(queue, checkpoint, kept)
        return [attempt.offset for attempt in kept if attempt.leased]

    def appended(self, queue: QueueId) -> None:
        """Something was stored in this queue."""
        if queue.priority not in self._priorities:
            self._priorities[queue.priority] = Priority(queue, NOTHING_DONE)
        self._priorities[queue.priority].appended()

    # ---- from the log to a module ----

    def wanted(self, now: float, messages_max: int) -> BrokeredFetch | None:
        """What to read for a module that asks for up to ``messages_max``; None if nothing is available now."""
        room = min(messages_max, LEASED_MAX - sum(each.leased for each in self._priorities.values()))
        if room <= 0:
            return None
        for priority in sorted(self._priorities):
            fetch = self._priorities[priority].wanted(now, room)
            if fetch is not None:
                return fetch
        return None

    def fetched(
        self, fetch: BrokeredFetch, items: Sequence[Item], now: float, *, messages_max: int, lease_seconds: float
    ) -> FetchResult:
        """The store's answer to ``wanted``."""
        read = [(item, envelope.read(item.content)) for item in items]
        priority = self._priorities[fetch.queue.priority]
        attempts = priority.fetched(
            fetch,
            [(item, message.id) for item, message in read],
            now,
            messages_max=messages_max,
            lease_seconds=lease_seconds,
        )
        messages = {item.offset: message for item, message in read}
        return FetchResult(
            queue=fetch.queue,
            leased=tuple(
                Leased(
                    id=each.id,
                    priority=fetch.queue.priority,
                    message=messages[each.offset],
                    attempt=each.number,
                )
                for each in attempts
            ),
            attempts=tuple(attempts),
            left=tuple(item.offset for item in items if not priority.is_out(item.offset)),
        )

    def withdrawn(self, ids: Iterable[str], now: float) -> list[BrokeredFailed]:
        """The module disconnected before it got these: this is no attempt, and they are available again at once."""
        taken, _ = self._sorted(ids)
        found: list[BrokeredFailed] = []
        for number, offsets in taken.items():
            again = (self._priorities[number].withdrawn(offset, now) for offset in offsets)
            found.append(self._failed(number, tuple(filter(None, again)), []))
        return found

    # ---- answers of a module, or their absence ----

    def acked(self, ids: Iterable[str]) -> tuple[list[BrokeredSettle], list[str]]:
        """The module processed these.  Also returns the ids that are unknown, or no longer known."""
        done, unknown = self._sorted(ids)
        return [self._priorities[priority].acked(offsets) for priority, offsets in done.items()], unknown

    def abandoned(self, ids: Iterable[str], now: float, why: str = ABANDONED) -> tuple[list[BrokeredFailed], list[str]]:
        """The module abandoned these.  Also returns the ids that are unknown, or no longer known."""
        given, unknown = self._sorted(ids)
        found: list[BrokeredFailed] = []
        for priority, offsets in given.items():
            again: list[Attempt] = []
            never: list[int] = []
            for offset in offsets:
                attempt = self._priorities[priority].abandoned(offset, now, self._policy, self._uniform)
                if attempt is None:
                    never.append(offset)
                else:
                    again.append(attempt)
            found.append(self._failed(priority, tuple(again), never, why))
        return found, unknown

    def expire_leases(self, now: float) -> list[BrokeredFailed]:
        """Ends the leases that have run out.  The retries need not be recorded: a restart leads to the same result."""
        found: list[BrokeredFailed] = []
        for number, priority in self._priorities.items():
            again, never = priority.expire_leases(now, self._policy, self._uniform)
            if again or never:
                found.append(self._failed(number, tuple(again), never, LEASE_ENDED))
        return found

    # ---- results of the store ----

    def settled(self, settle: BrokeredSettle) -> None:
        """The settlement is on disk."""
        self._priorities[settle.queue.priority].settled(settle)

    def settle_failed(self, settle: BrokeredSettle) -> None:
        """The store could not write the settlement: the messages stay as they were."""
        self._priorities[settle.queue.priority].settle_failed(settle)

    # ---- reads ----

    def next_time(self, now: float) -> float | None:
        """When the next lease ends, or the next message is due."""
        times = [each.next_time(now) for each in self._priorities.values()]
        return min((time for time in times if time is not None), default=None)

    def counts(self) -> dict[int, tuple[int, int]]:
        """By priority: how many messages are leased, and how many wait for their next attempt."""
        return {number: (each.leased, each.retrying) for number, each in self._priorities.items()}

    # ---- helpers ----

    def _place(self, id: str) -> tuple[int, int] | None:
        """Priority and offset of a message that was delivered and is not done; None for any other id."""
        for number, priority in self._priorities.items():
            offset = priority.offset_of(id)
            if offset is not None:
                return number, offset
        return None

    def _sorted(self, ids: Iterable[str]) -> tuple[dict[int, list[int]], list[str]]:
        """Offsets by priority, without duplicates, and the unknown ids."""
        found: dict[int, list[int]] = defaultdict(list)
        unknown: list[str] = []
        for id in ids:
            place = self._place(id)
            if place is None:
                unknown.append(id)
            elif place[1] not in found[place[0]]:
                found[place[0]].append(place[1])
        return found, unknown

    def _failed(self, priority: int, again: tuple[Attempt, ...], never: Sequence[int], why: str = "") -> BrokeredFailed:
        of_priority = self._priorities[priority]
        settle = of_priority.given_up(never, why) if never else None
        return BrokeredFailed(queue=of_priority.queue, again=again, settle=settle)
