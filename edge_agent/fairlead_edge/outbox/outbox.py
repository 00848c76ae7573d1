"""Messages that wait to leave this node: one log for each (endpoint, priority), each body stored once.

    append ─▶ body ◀─┬─ reference in iothub_Pri0   (offset 17, expires 86400 s from now, topic default/alarms)
                     └─ reference in iothub        (offset 204, …)
    fetch  ─▶ the next live references of one queue, in order
    settle ─▶ sent, or dead-lettered with a reason; the checkpoint moves
    sweep  ─▶ the space of expired messages is freed

A reference carries what its route said at acceptance (priority, time to live, topic), and a later manifest does not
change it.  The exception is the time to live of a message whose route has none: it follows its EdgeRoutes object until
the message expires.  Offsets are never reused.  Times are seconds of the store's own clock (``age.AgeClock``); a
reference is *live* while its offset is above the queue's checkpoint and it has not expired.  Every message is in
exactly
one place; for each queue, at any moment:

    accepted = sent + expired + evicted + dead-lettered + damaged + length

A message counts as expired from the moment its time to live ends, even if its space is not freed yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from fairlead_edge.outbox.queues import Attempt, InFlight, QueueId, base

if TYPE_CHECKING:
    from fairlead_edge.outbox.receipts.departure import Departure

REFERENCE_BYTES: Final = 64
"""What a reference counts against the store's limit, in addition to its body."""
SEGMENT_BYTES_MAX: Final = 256 * 1024
"""Bodies of one request with the same references are stored together up to this size; a larger body is alone."""
EVICT_ROWS: Final = 256
"""References that one step of eviction removes; at most this many are evicted beyond what is needed."""
SWEEP_ROWS: Final = 1000
"""References that one step of a sweep removes; bounded, so that producers do not wait long."""
IDEMPOTENCY_SECONDS: Final = 24 * 3600.0
"""How long an Idempotency-Key is remembered."""
IDEMPOTENCY_KEYS_MAX: Final = 100_000
"""How many keys are remembered; beyond it, the oldest are forgotten."""
DEAD_LETTER_PAGE_MAX: Final = 1000
REFUSED_LETTERS_MAX: Final = 1000
"""The most dead letters of refused input that are kept, however small they are."""


class Reference(msgspec.Struct, frozen=True):
    """One destination of a message: the queue, its time to live (None = forever), and the topic ("" = none).

    ``inherits`` names the EdgeRoutes object whose time to live it follows (``Outbox.inherit``); "" if it has its own.
    """

    queue: QueueId
    ttl_seconds: float | None = None
    topic: str = ""
    inherits: str = ""


class Entry(msgspec.Struct, frozen=True):
    """A message to store: its id, the JSON object of ``envelope.stored``, and at least one reference.

    Receipts find it by ``mark`` (``receipts.marks``); if empty, the mark is derived from the content.
    """

    id: str
    content: bytes
    references: tuple[Reference, ...]
    mark: bytes = b""


def inheriting(entries: Sequence[Entry], ttl_seconds: Mapping[str, float | None]) -> Sequence[Entry]:
    """The entries with the current time to live of their objects, which may have changed since they were routed."""

    def follow(reference: Reference) -> Reference:
        if reference.inherits not in ttl_seconds:
            return reference
        return msgspec.structs.replace(reference, ttl_seconds=ttl_seconds[reference.inherits])

    if all(
        not each.inherits or ttl_seconds.get(each.inherits, each.ttl_seconds) == each.ttl_seconds
        for entry in entries
        for each in entry.references
    ):
        return entries
    return [
        msgspec.structs.replace(entry, references=tuple(follow(each) for each in entry.references)) for entry in entries
    ]


def segments(entries: Sequence[Entry]) -> list[list[int]]:
    """Groups entries (by index) that are stored together: those with the same references, which end together.

    A segment's space is freed, and stops counting against ``max_bytes``, with its last reference.
    """
    found: list[list[int]] = []
    open_at: dict[tuple[Reference, ...], int] = {}
    sizes: list[int] = []
    before: tuple[Reference, ...] | None = None
    at: int | None = None
    for index, entry in enumerate(entries):
        # Most entries of a request have equal references, and comparing costs a third of hashing.
        if entry.references != before:
            before = entry.references
            at = open_at.get(before)
        if at is None or sizes[at] + len(entry.content) > SEGMENT_BYTES_MAX:
            at = open_at[entry.references] = len(found)
            found.append([])
            sizes.append(0)
        found[at].append(index)
        sizes[at] += len(entry.content)
    return found


def cost(entries: Sequence[Entry]) -> int:
    """How many bytes these count against ``max_bytes``."""
    return sum(len(entry.content) + REFERENCE_BYTES * len(entry.references) for entry in entries)


def least_urgent(entries: Sequence[Entry]) -> int:
    """The priority of the least urgent reference: eviction spares everything that is at least as urgent."""
    return max(base(reference.queue.priority) for entry in entries for reference in entry.references)


class RefusedInputPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How much refused input is kept: the share of the store for its dead letters, and for how long (0: forever)."""

    share: float = 0.05
    seconds: float = 604_800


REFUSED_INPUT_DEFAULT: Final = RefusedInputPolicy()


class IdempotencyKey(msgspec.Struct, frozen=True):
    """An Idempotency-Key, the digest of its request, and the answer to give to a repeated request."""

    key: str
    digest: bytes
    answer: bytes


class Item(msgspec.Struct, frozen=True):
    """One live reference with its body, as the pump reads it."""

    offset: int
    epoch: int
    topic: str
    enqueued: float
    expires: float | None
    content: bytes

    def live(self, now: float) -> bool:
        return self.expires is None or self.expires > now


class Refusal(msgspec.Struct, frozen=True):
    """The message at this offset will never be accepted: a code for programs and a reason for people."""

    offset: int
    code: str
    reason: str


class QueueCounts(msgspec.Struct, frozen=True, kw_only=True):
    """One priority of one endpoint; ``bytes`` counts bodies, ``dead_lettered`` its present dead letters.

    ``damaged`` counts messages that the disk lost or changed; a gap record (``gaps``) is itself an accepted message.
    """

    endpoint: str
    priority: int
    queue: str
    length: int
    bytes: int
    oldest_age_seconds: float
    accepted: int
    sent: int
    expired: int
    evicted: int
    dead_lettered: int
    checkpoint: int
    in_doubt: int = 0
    """Messages expired or evicted since the start that may be in their topic: they were sent and got no answer."""
    damaged: int = 0


class OutboxStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The whole store at one moment; ``bytes`` is what counts against ``max_bytes``."""

    queues: tuple[QueueCounts, ...]
    bytes: int
    max_bytes: int
    dead_letters: int
    refused_letters: int = 0
    """Dead letters of refused input; below, the bytes they take and may take."""
    refused_bytes: int = 0
    refused_bytes_max: int = 0


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was refused permanently; ``number`` identifies it for replay, ``at`` is RFC 3339."""

    number: int
    queue: QueueId
    epoch: int
    offset: int
    topic: str
    ttl_seconds: float | None
    at: str
    code: str
    reason: str
    content: bytes


class RefusedMessage(msgspec.Struct, frozen=True):
    """A message that is refused permanently before it is in a queue; the one reference of ``entry`` is for a replay."""

    entry: Entry
    code: str
    reason: str


def last_refused(
    refused: Sequence[RefusedMessage], next_offset: Callable[[QueueId], int]
) -> dict[QueueId, list[Refusal]]:
    """By queue, the refusals of messages that were just appended, in this order."""
    by_queue: dict[QueueId, list[RefusedMessage]] = {}
    for each in refused:
        by_queue.setdefault(each.entry.references[0].queue, []).append(each)
    return {
        queue: [
            Refusal(offset, each.code, each.reason)
            for offset, each in enumerate(found, next_offset(queue) - len(found))
        ]
        for queue, found in by_queue.items()
    }


def letter_cost(content_bytes: int) -> int:
    """What a dead letter counts against ``max_bytes``."""
    return content_bytes + REFERENCE_BYTES


def refused_to_evict(costs: Sequence[int], *, bytes_max: int, excess: int = 0) -> int:
    """How many dead letters of refused input to evict, oldest first; ``costs`` has the bytes of each, in order.

    The rest take at most ``bytes_max`` and are at most ``REFUSED_LETTERS_MAX``, and ``excess`` bytes are freed if
    there are that many.
    """
    count, taken, freed = 0, sum(costs), 0
    while count < len(costs) and (taken > bytes_max or freed < excess or len(costs) - count > REFUSED_LETTERS_MAX):
        taken -= costs[count]
        freed += costs[count]
        count += 1
    return count


def replayed(letter: DeadLetter) -> Entry:
    """The entry for a replayed dead letter: the same message, with its full time to live."""
    return Entry("", letter.content, (Reference(letter.queue, letter.ttl_seconds, letter.topic),))


class Outbox(Protocol):
    """The port of the store.  When a call that changes it returns, the change is durable.

    Such calls raise ``StoreFull`` (nothing changed) and ``StoreFailed`` (the program must stop).
    """

    epoch: int
    """Stored with each message at acceptance; new each time the store is opened."""
    refused_bytes_max: int
    """How much of the store dead letters of refused input may take."""
    in_flight: InFlight
    """Messages sent and not settled: they are neither swept nor evicted, and count as waiting even if expired."""

    async def append(
        self, entries: Sequence[Entry], *, now: float, idempotency: IdempotencyKey | None = None, evict: bool = False
    ) -> bytes | None:
        """Store all entries or none.  For a known key, store nothing and return the first answer.

        If ``max_bytes`` is exceeded, dead letters of refused input are evicted, oldest first.  With ``evict``, the
        oldest messages of the least urgent queues follow, but never from a queue that is at least as urgent as the
        least urgent new message.
        Raises ``KeyReused`` if the key came with another digest, ``StoreFull`` if there is still not enough space.
        """
        ...

    async def refuse(self, refused: Sequence[RefusedMessage], *, now: float, at: str) -> None:
        """Store all of these as dead letters, or none; they never appear in their queue.  Raises ``StoreFull``.

        They count as accepted and dead-lettered.  Refused input (``queues.is_refused_input``) has a share of the
        store; beyond it, and beyond ``REFUSED_LETTERS_MAX``, its oldest dead letters are evicted.
        """
        ...

    async def queues(self) -> list[QueueId]:
        """Every queue that was ever written to, most urgent first within an endpoint."""
        ...

    async def fetch(
        self,
        queue: QueueId,
        *,
        after: int,
        now: float,
        messages_max: int,
        bytes_max: int,
        leaving: bool = False,
        only: Collection[int] | None = None,
    ) -> list[Item]:
        """The next live references above ``after`` (and the checkpoint), in order, each as it was accepted.

        ``leaving``: they are in flight from now on; give back those that are not sent.
        ``only``: just those at these offsets.
        Damaged messages are left out: they are counted, and a gap record is stored in their place.
        The result ends with the message that reaches ``messages_max`` or ``bytes_max``; if it reaches neither, there
        are no more.
        """
        ...

    async def settle(
        self,
        queue: QueueId,
        *,
        sent: Sequence[int] = (),
        refused: Sequence[Refusal] = (),
        checkpoint: int,
        at: str,
        departures: Sequence[Departure] = (),
    ) -> None:
        """Remove these offsets, which are done and no longer in flight.  Those already removed are not counted again.

        A checkpoint never passes the last accepted message.  ``departures`` is what receipts report from now on.
        """
        ...

    async def route_again(self, queue: QueueId, routed: Sequence[tuple[int, Entry | None]], *, now: float) -> int:
        """Move these offsets out of the queue to where their entries say (None: nowhere), in one step.

        Returns how many were there; they count as sent from this queue.  Raises ``StoreFull``.
        """
        ...

    async def checkpoint(self, queue: QueueId) -> int:
        """The queue's checkpoint; ``queues.NOTHING_DONE`` for an unknown queue."""
        ...

    async def note_attempts(self, queue: QueueId, attempts: Sequence[Attempt]) -> None:
        """Store these with their messages, replacing earlier ones; they are deleted with the messages."""
        ...

    async def attempts(self) -> dict[QueueId, list[Attempt]]:
        """The stored attempts of each queue, by offset."""
        ...

    async def sweep(self, *, now: float, entire: bool) -> int:
        """Remove at most ``SWEEP_ROWS`` expired references; returns how many, 0 if there is nothing left to do.

        ``entire``: anywhere in the queues; otherwise only from each queue's head up to its first live message.
        Dead letters of refused input that are too old are removed as well, and count as expired.
        """
        ...

    async def inherit(self, ttl_seconds: Mapping[str, float | None], *, now: float) -> None:
        """Set the time to live of everything that inherits from these objects (None: forever).

        What has expired stays expired.  Returns once all messages are changed durably.
        """
        ...

    async def shrink(self) -> int:
        """Return unused space to the file system, in one bounded step; returns the bytes, 0 if it is not worth it."""
        ...

    async def status(self, *, now: float) -> OutboxStatus: ...

    async def dead_letters(self, *, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        """Dead letters with a number above ``after``, oldest first."""
        ...

    async def discard(self, numbers: Sequence[int]) -> int:
        """Delete these dead letters; returns how many existed.  They count as evicted."""
        ...

    async def replay(self, numbers: Sequence[int] | None, *, now: float, limit: int = DEAD_LETTER_PAGE_MAX) -> int:
        """Put these dead letters (None: all, up to ``limit``) back into their queues; returns how many.

        They get new offsets, the current epoch and their full time to live.
        """
        ...
