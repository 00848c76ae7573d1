"""What waits to leave this node: one log per (endpoint, priority), each body stored once.

    append ─▶ body ◀─┬─ reference in iothub_Pri0   (offset 17, expires 86400 s from now, topic default/alarms)
                     └─ reference in iothub        (offset 204, …)
    fetch  ─▶ the next live references of one queue, in order
    settle ─▶ sent, or dead-lettered with a reason; the checkpoint moves
    sweep  ─▶ room taken by what expired is given back

A reference carries what its route said at acceptance (priority, time to live, topic): a later manifest changes
nothing that is already stored, but for the time to live of those whose route said none: that is what their EdgeRoutes
object says at any moment, until they expire.  Offsets are never reused.  Times are seconds of the store's own clock
(``age.AgeClock``); a reference is *live* while its offset is above the queue's checkpoint and its time has not
come.  Everything ends in exactly one place, per queue and at any moment:

    accepted = sent + expired + evicted + dead-lettered + damaged + length

where what expired counts as expired from that second on, whether its room was given back yet or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from fairlead_edge.outbox.queues import Attempt, InFlight, QueueId, base

if TYPE_CHECKING:
    from fairlead_edge.outbox.receipts.departure import Departure

REFERENCE_BYTES: Final = 64
"""What one reference costs on disk beside its body, for the store's limit."""
SEGMENT_BYTES_MAX: Final = 256 * 1024
"""Bodies of one request for the same queues and time are stored together up to this size; a larger one is alone."""
EVICT_ROWS: Final = 256
"""References that one step of eviction removes: the most that is evicted beyond need."""
SWEEP_ROWS: Final = 1000
"""References that one step of a sweep removes, so that producers do not wait for it."""
IDEMPOTENCY_SECONDS: Final = 24 * 3600.0
"""How long an Idempotency-Key is remembered."""
IDEMPOTENCY_KEYS_MAX: Final = 100_000
"""More keys than this are forgotten, oldest first."""
DEAD_LETTER_PAGE_MAX: Final = 1000
REFUSED_LETTERS_MAX: Final = 1000
"""Dead letters of refused input that are kept, however little room they take."""


class Reference(msgspec.Struct, frozen=True):
    """One place a message goes: the queue, its time to live (None = for ever), and the topic ("" = none).

    ``inherits``: the EdgeRoutes object whose time to live this is, and goes on to be (``Outbox.inherit``); "": its own.
    """

    queue: QueueId
    ttl_seconds: float | None = None
    topic: str = ""
    inherits: str = ""


class Entry(msgspec.Struct, frozen=True):
    """A message to store: its id, the JSON object of ``envelope.stored``, and at least one reference.

    ``mark``: what receipts find it by (``receipts.marks``); empty: it is derived from the content.
    """

    id: str
    content: bytes
    references: tuple[Reference, ...]
    mark: bytes = b""


def inheriting(entries: Sequence[Entry], ttl_seconds: Mapping[str, float | None]) -> Sequence[Entry]:
    """The same entries with the current time to live of their objects, which may have changed since routing."""

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
    """Which entries (by index) are stored together: those with the same references, which are removed together.

    The room of a segment is given back, and stops counting against ``max_bytes``, with its last reference.
    """
    found: list[list[int]] = []
    open_at: dict[tuple[Reference, ...], int] = {}
    sizes: list[int] = []
    before: tuple[Reference, ...] | None = None
    at: int | None = None
    for index, entry in enumerate(entries):
        # Comparing costs a third of hashing, and most entries of a request have equal references.
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
    """The bytes these count against ``max_bytes``."""
    return sum(len(entry.content) + REFERENCE_BYTES * len(entry.references) for entry in entries)


def least_urgent(entries: Sequence[Entry]) -> int:
    """The priority of the least urgent reference: eviction spares what is as urgent or more."""
    return max(base(reference.queue.priority) for entry in entries for reference in entry.references)


class RefusedInputPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of refused input: the part of the store its dead letters may take; for how long (0: for ever)."""

    share: float = 0.05
    seconds: float = 604_800


REFUSED_INPUT_DEFAULT: Final = RefusedInputPolicy()


class IdempotencyKey(msgspec.Struct, frozen=True):
    """An Idempotency-Key, the digest of its request, and the answer to remember for the next time."""

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
    """This offset will never be accepted: a code for programs and a reason for people."""

    offset: int
    code: str
    reason: str


class QueueCounts(msgspec.Struct, frozen=True, kw_only=True):
    """One priority of one endpoint; ``bytes`` are bodies, ``dead_lettered`` what lies in the dead letters now.

    ``damaged`` is what the disk lost or changed; a record of each gap (``gaps``) is itself an accepted message.
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
    """Of what expired or was evicted since the start: may be in its topic, for it had left and no answer came."""
    damaged: int = 0


class OutboxStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The whole store at one moment; ``bytes`` is what counts against ``max_bytes``."""

    queues: tuple[QueueCounts, ...]
    bytes: int
    max_bytes: int
    dead_letters: int
    refused_letters: int = 0
    """Of the dead letters those of refused input, and below what they take and may take."""
    refused_bytes: int = 0
    refused_bytes_max: int = 0


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was refused for good; ``number`` names it for replay, ``at`` is RFC 3339."""

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
    """A message that is refused for good before it was in any queue: ``entry`` has one reference, to the queue it
    comes back to when it is replayed."""

    entry: Entry
    code: str
    reason: str


def last_refused(
    refused: Sequence[RefusedMessage], next_offset: Callable[[QueueId], int]
) -> dict[QueueId, list[Refusal]]:
    """By queue, the refusals of messages that were just appended in this order."""
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
    """How many dead letters of refused input have to go, the oldest first: ``costs`` is what each takes, in order.

    Afterwards they take ``bytes_max`` at most and are ``REFUSED_LETTERS_MAX`` at most, and ``excess`` bytes are free,
    as far as there is so much to free.
    """
    count, taken, freed = 0, sum(costs), 0
    while count < len(costs) and (taken > bytes_max or freed < excess or len(costs) - count > REFUSED_LETTERS_MAX):
        taken -= costs[count]
        freed += costs[count]
        count += 1
    return count


def replayed(letter: DeadLetter) -> Entry:
    """What comes back when a dead letter is replayed: the same message, with its time to live anew."""
    return Entry("", letter.content, (Reference(letter.queue, letter.ttl_seconds, letter.topic),))


class Outbox(Protocol):
    """The port.  Every answer of a changing call means: durable.

    Changing calls raise ``StoreFull`` (nothing changed) and ``StoreFailed`` (stop the program).
    """

    epoch: int
    """Kept with each message from its acceptance; made anew each time the store is opened."""
    refused_bytes_max: int
    """What dead letters of refused input may take of the store."""
    in_flight: InFlight
    """What left and is not decided: it is neither swept nor evicted, and counts as waiting whatever its time."""

    async def append(
        self, entries: Sequence[Entry], *, now: float, idempotency: IdempotencyKey | None = None, evict: bool = False
    ) -> bytes | None:
        """Store all entries or none.  With a known key: nothing is stored, the first answer comes back.

        Over ``max_bytes`` dead letters of refused input make room first, oldest first, and count as evicted.
        Over ``max_bytes`` with ``evict``: the oldest messages of the least urgent queues make room, never of one that
        is as urgent as the least urgent arriving, and count as evicted.
        Raises ``KeyReused`` when the key came with another digest, ``StoreFull`` over ``max_bytes``.
        """
        ...

    async def refuse(self, refused: Sequence[RefusedMessage], *, now: float, at: str) -> None:
        """Store all of these as dead letters, or none: nothing ever finds them in their queue.  Raises ``StoreFull``.

        They count as accepted and dead-lettered.  Those of refused input (``queue_id.is_refused_input``) have a share
        of the store; beyond it, and beyond ``REFUSED_LETTERS_MAX``, the oldest of them are evicted.
        """
        ...

    async def queues(self) -> list[QueueId]:
        """Every queue that was ever written to, found on disk, most urgent first within an endpoint."""
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

        ``leaving``: they are in flight from this moment; give back what does not leave.
        ``only``: of these offsets alone.

        What the disk damaged is not among them: it is counted and a gap record stored in its place.
        It ends with the message that reaches ``messages_max`` or ``bytes_max``; short of both there are no more.
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
        """These offsets are done, and in flight no longer.  What is not there any more is not counted again.

        A checkpoint passes nothing that was not accepted yet.  ``departures``: what receipts say of them from now on.
        """
        ...

    async def route_again(self, queue: QueueId, routed: Sequence[tuple[int, Entry | None]], *, now: float) -> int:
        """Take these offsets out of the queue and store each message as its entry says (None: nowhere), in one step;
        returns how many were there.  They count as sent from this queue.  Raises ``StoreFull``.
        """
        ...

    async def checkpoint(self, queue: QueueId) -> int:
        """Where the queue's checkpoint stands; ``checkpoint.NOTHING_DONE`` for an unknown queue."""
        ...

    async def note_attempts(self, queue: QueueId, attempts: Sequence[Attempt]) -> None:
        """Keep these with their messages, each instead of what was kept of it before; they go with the messages."""
        ...

    async def attempts(self) -> dict[QueueId, list[Attempt]]:
        """What is kept of messages that were given to modules, by offset."""
        ...

    async def sweep(self, *, now: float, entire: bool) -> int:
        """Give back room of at most ``SWEEP_ROWS`` expired references; 0 = nothing more to do.

        ``entire``: wherever they are; otherwise from the head of each queue up to the first live one.
        Dead letters of refused input that are too old go, too, and count as expired.
        """
        ...

    async def inherit(self, ttl_seconds: Mapping[str, float | None], *, now: float) -> None:
        """From now on what inherits from these objects lives as long as they say (None: for ever).

        What has expired stays so.  Returns when all of it is changed, durably.
        """
        ...

    async def give_back(self) -> int:
        """Return unused room to the file system, one bounded step; bytes returned, 0 = nothing that is worth it."""
        ...

    async def status(self, *, now: float) -> OutboxStatus: ...

    async def dead_letters(self, *, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        """Dead letters with a number above ``after``, oldest first."""
        ...

    async def discard(self, numbers: Sequence[int]) -> int:
        """Delete these dead letters; returns how many were there.  They count as evicted."""
        ...

    async def replay(self, numbers: Sequence[int] | None, *, now: float, limit: int = DEAD_LETTER_PAGE_MAX) -> int:
        """Put these dead letters (None: all, up to ``limit``) back into their queues; returns how many.

        They get new offsets, the present epoch and their time to live anew.
        """
        ...
