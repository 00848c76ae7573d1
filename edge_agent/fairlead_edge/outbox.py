"""What waits to leave this node: one log per (endpoint, priority), each body stored once.

    append ─▶ body ◀─┬─ reference in iothub_Pri0   (offset 17, expires 86400 s from now, topic default/alarms)
                     └─ reference in iothub        (offset 204, …)
    fetch  ─▶ the next live references of one queue, in order
    settle ─▶ sent, or dead-lettered with a reason; the checkpoint moves
    sweep  ─▶ room taken by what expired is given back

A reference carries what its route said at acceptance (priority, time to live, topic): a later manifest changes
nothing that is already stored.  Offsets are never reused.  Times are seconds of the store's own clock
(``age.AgeClock``); a reference is *live* while its offset is above the queue's checkpoint and its time has not
come.  Everything ends in exactly one place, per queue and at any moment:

    accepted = sent + expired + evicted + dead-lettered + length

where what expired counts as expired from that second on, whether its room was given back yet or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from fairlead_edge.checkpoint import NOTHING_DONE
from fairlead_edge.errors import KeyReused, StoreFull
from fairlead_edge.queue_id import QueueId

REFERENCE_BYTES: Final = 64
"""What one reference costs on disk beside its body, for the store's limit."""
SEGMENT_BYTES_MAX: Final = 256 * 1024
"""Bodies that came in one request for the same queues and time are stored together up to this; one larger is alone."""
SWEEP_ROWS: Final = 1000
"""References one sweep step takes out, so that producers do not wait for it."""
RECEIPT_SECONDS: Final = 24 * 3600.0
"""How long an Idempotency-Key is remembered."""
RECEIPTS_MAX: Final = 100_000
"""More keys than this are forgotten, oldest first."""
DEAD_LETTER_PAGE_MAX: Final = 1000


class Reference(msgspec.Struct, frozen=True):
    """One place a message goes: the queue, its time to live (None = for ever), and the topic ("" = none)."""

    queue: QueueId
    ttl_seconds: float | None = None
    topic: str = ""


class Entry(msgspec.Struct, frozen=True):
    """A message to store: its id, the JSON object of ``envelope.stored``, and at least one reference."""

    id: str
    content: bytes
    references: tuple[Reference, ...]


def segments(entries: Sequence[Entry]) -> list[list[int]]:
    """Which entries (by index) are stored together: they have the same references, so they go together.

    The room of a segment is given back, and stops counting against ``max_bytes``, with its last reference.
    """
    found: list[list[int]] = []
    open_at: dict[tuple[Reference, ...], int] = {}
    sizes: list[int] = []
    for index, entry in enumerate(entries):
        at = open_at.get(entry.references)
        if at is None or sizes[at] + len(entry.content) > SEGMENT_BYTES_MAX:
            at = open_at[entry.references] = len(found)
            found.append([])
            sizes.append(0)
        found[at].append(index)
        sizes[at] += len(entry.content)
    return found


class Once(msgspec.Struct, frozen=True):
    """An Idempotency-Key, the digest of its request, and the answer to remember for the next time."""

    key: str
    digest: bytes
    answer: bytes


class Item(msgspec.Struct, frozen=True):
    """One live reference with its body, as the pump gets it."""

    offset: int
    epoch: int
    topic: str
    enqueued: float
    expires: float | None
    content: bytes

    def live(self, now: float) -> bool:
        return self.expires is None or self.expires > now


class Refusal(msgspec.Struct, frozen=True):
    """This offset will never be taken: a code for programs and a reason for people."""

    offset: int
    code: str
    reason: str


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One priority of one endpoint; ``bytes`` are bodies, ``dead_lettered`` what lies in the dead letters now."""

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


class OutboxStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The whole store at one moment; ``bytes`` is what counts against ``max_bytes``."""

    queues: tuple[QueueStatus, ...]
    bytes: int
    max_bytes: int
    dead_letters: int


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


def replayed(letter: DeadLetter) -> Entry:
    """What comes back when a dead letter is replayed: the same message, with its time to live anew."""
    return Entry("", letter.content, (Reference(letter.queue, letter.ttl_seconds, letter.topic),))


class Outbox(Protocol):
    """The port.  Every answer of a changing call means: durable.

    Changing calls raise ``StoreFull`` (nothing changed) and ``StoreFailed`` (stop the program).
    """

    epoch: int
    """Kept with each message from its acceptance; minted anew each time the store is opened."""

    async def append(self, entries: Sequence[Entry], *, now: float, once: Once | None = None) -> bytes | None:
        """Store all entries or none.  With a known key: nothing is stored, the first answer comes back.

        Raises ``KeyReused`` when the key came with another digest, ``StoreFull`` over ``max_bytes``.
        """
        ...

    async def queues(self) -> list[QueueId]:
        """Every queue that was ever written to, found on disk, most urgent first within an endpoint."""
        ...

    async def fetch(self, queue: QueueId, *, after: int, now: float, messages_max: int, bytes_max: int) -> list[Item]:
        """The next live references above ``after`` (and the checkpoint), in order.

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
    ) -> None:
        """These offsets are done.  What is not there any more is not counted again."""
        ...

    async def checkpoint(self, queue: QueueId) -> int:
        """Where the queue's checkpoint stands; ``checkpoint.NOTHING_DONE`` for an unknown queue."""
        ...

    async def sweep(self, *, now: float, entire: bool) -> int:
        """Give back room of at most ``SWEEP_ROWS`` expired references; 0 = nothing more to do.

        ``entire``: wherever they are; otherwise from the head of each queue up to the first live one.
        """
        ...

    async def status(self, *, now: float) -> OutboxStatus: ...

    async def dead_letters(self, *, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        """Dead letters with a number above ``after``, oldest first."""
        ...

    async def replay(self, numbers: Sequence[int] | None, *, now: float, limit: int = DEAD_LETTER_PAGE_MAX) -> int:
        """Put these dead letters (None: all, up to ``limit``) back into their queues; returns how many.

        They get new offsets, the present epoch and their time to live anew.
        """
        ...


class _Kept(msgspec.Struct):
    epoch: int
    topic: str
    enqueued: float
    expires: float | None
    content: bytes
    segment: int

    def gone(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now


class _Log:
    """One queue of the twin."""

    def __init__(self) -> None:
        self.kept: dict[int, _Kept] = {}  # by offset, in order
        self.next_offset = 0
        self.checkpoint = NOTHING_DONE
        self.accepted = self.sent = self.expired = self.evicted = 0

    def live(self, offset: int, now: float) -> bool:
        return offset > self.checkpoint and not self.kept[offset].gone(now)


class MemoryOutbox:
    """The twin: the same answers and refusals, nothing survives the process."""

    def __init__(self, *, epoch: int, max_bytes: int) -> None:
        self.epoch = epoch
        self.max_bytes = max_bytes
        self._logs: dict[QueueId, _Log] = {}
        self._references: Counter[int] = Counter()
        self._segment_bytes: dict[int, int] = {}
        self._dead: dict[int, DeadLetter] = {}
        self._receipts: dict[str, tuple[bytes, bytes, float]] = {}
        self._bytes = 0
        self._next_segment = 1
        self._next_letter = 1

    async def append(self, entries: Sequence[Entry], *, now: float, once: Once | None = None) -> bytes | None:
        if once is not None and once.key in self._receipts:
            digest, answer, _ = self._receipts[once.key]
            if digest != once.digest:
                raise KeyReused(once.key)
            return answer
        wanted = sum(len(entry.content) + REFERENCE_BYTES * len(entry.references) for entry in entries)
        if self._bytes + wanted > self.max_bytes:
            raise StoreFull(f"the store holds {self._bytes} of {self.max_bytes} bytes, {wanted} more do not fit")
        self._bytes += wanted
        self._append(entries, now)
        if once is not None:
            self._receipts[once.key] = (once.digest, once.answer, now)
        return None

    async def queues(self) -> list[QueueId]:
        return sorted(self._logs)

    async def fetch(self, queue: QueueId, *, after: int, now: float, messages_max: int, bytes_max: int) -> list[Item]:
        items: list[Item] = []
        log = self._logs.get(queue) or _Log()
        for offset, kept in log.kept.items():
            if offset <= after or not log.live(offset, now):
                continue
            items.append(Item(offset, kept.epoch, kept.topic, kept.enqueued, kept.expires, kept.content))
            bytes_max -= len(kept.content)
            if len(items) == messages_max or bytes_max <= 0:
                break
        return items

    async def settle(
        self,
        queue: QueueId,
        *,
        sent: Sequence[int] = (),
        refused: Sequence[Refusal] = (),
        checkpoint: int,
        at: str,
    ) -> None:
        log = self._logs.get(queue)
        if log is None:
            return
        for refusal in refused:
            kept = self._remove(log, refusal.offset)
            if kept is not None:
                self._bury(queue, refusal, kept, at)
        log.sent += sum(self._remove(log, offset) is not None for offset in sent)
        log.checkpoint = max(log.checkpoint, checkpoint)

    async def checkpoint(self, queue: QueueId) -> int:
        log = self._logs.get(queue)
        return NOTHING_DONE if log is None else log.checkpoint

    async def sweep(self, *, now: float, entire: bool) -> int:
        for key in [key for key, (_, _, at) in self._receipts.items() if at < now - RECEIPT_SECONDS]:
            del self._receipts[key]
        swept = 0
        for log in self._logs.values():
            for offset in list(log.kept):
                if log.live(offset, now):
                    if entire:
                        continue
                    break
                if swept == SWEEP_ROWS:
                    return swept
                self._remove(log, offset)
                log.expired += 1
                swept += 1
        return swept

    async def status(self, *, now: float) -> OutboxStatus:
        dead = Counter(letter.queue for letter in self._dead.values())
        found = []
        for queue, log in sorted(self._logs.items()):
            live = [kept for offset, kept in log.kept.items() if log.live(offset, now)]
            found.append(
                QueueStatus(
                    endpoint=queue.endpoint,
                    priority=queue.priority,
                    queue=str(queue),
                    length=len(live),
                    bytes=sum(len(kept.content) for kept in live),
                    oldest_age_seconds=now - live[0].enqueued if live else 0.0,
                    accepted=log.accepted,
                    sent=log.sent,
                    expired=log.expired + len(log.kept) - len(live),
                    evicted=log.evicted,
                    dead_lettered=dead[queue],
                    checkpoint=log.checkpoint,
                )
            )
        return OutboxStatus(
            queues=tuple(found), bytes=self._bytes, max_bytes=self.max_bytes, dead_letters=len(self._dead)
        )

    async def dead_letters(self, *, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        return [letter for number, letter in self._dead.items() if number > after][:limit]

    async def replay(self, numbers: Sequence[int] | None, *, now: float, limit: int = DEAD_LETTER_PAGE_MAX) -> int:
        wanted = self._dead if numbers is None else set(numbers)
        letters = [letter for letter in self._dead.values() if letter.number in wanted][:limit]
        for letter in letters:
            del self._dead[letter.number]
            self._logs[letter.queue].accepted -= 1
        self._append([replayed(letter) for letter in letters], now)
        return len(letters)

    def _append(self, entries: Sequence[Entry], now: float) -> None:
        segment_of: dict[int, int] = {}
        for indexes in segments(entries):
            segment = self._next_segment
            self._next_segment += 1
            segment_of.update(dict.fromkeys(indexes, segment))
            self._references[segment] = sum(len(entries[index].references) for index in indexes)
            self._segment_bytes[segment] = sum(len(entries[index].content) for index in indexes)
        for index, entry in enumerate(entries):
            for reference in entry.references:
                self._refer(entry, reference, segment_of[index], now)

    def _refer(self, entry: Entry, reference: Reference, segment: int, now: float) -> None:
        ttl = reference.ttl_seconds
        expires = None if ttl is None else now + ttl
        log = self._logs.setdefault(reference.queue, _Log())
        log.kept[log.next_offset] = _Kept(self.epoch, reference.topic, now, expires, entry.content, segment)
        log.next_offset += 1
        log.accepted += 1

    def _remove(self, log: _Log, offset: int) -> _Kept | None:
        kept = log.kept.pop(offset, None)
        if kept is not None:
            self._references[kept.segment] -= 1
            self._bytes -= REFERENCE_BYTES
            if not self._references[kept.segment]:
                del self._references[kept.segment]
                self._bytes -= self._segment_bytes.pop(kept.segment)
        return kept

    def _bury(self, queue: QueueId, refusal: Refusal, kept: _Kept, at: str) -> None:
        self._bytes += len(kept.content) + REFERENCE_BYTES
        self._dead[self._next_letter] = DeadLetter(
            number=self._next_letter,
            queue=queue,
            epoch=kept.epoch,
            offset=refusal.offset,
            topic=kept.topic,
            ttl_seconds=None if kept.expires is None else kept.expires - kept.enqueued,
            at=at,
            code=refusal.code,
            reason=refusal.reason,
            content=kept.content,
        )
        self._next_letter += 1
