"""The outbox in memory, for tests and the simulation: it accepts and refuses exactly what the SQLite one does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from fairlead_edge.errors import KeyReused, StoreFull
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.outbox import (
    REFUSED_INPUT_DEFAULT,
    DeadLetter,
    Entry,
    IdempotencyKey,
    Item,
    OutboxStatus,
    QueueCounts,
    Reference,
    Refusal,
    RefusedInputPolicy,
    RefusedMessage,
    cost,
    least_urgent,
    replayed,
    segments,
)
from fairlead_edge.outbox.queues import NOTHING_DONE, Attempt, InFlight, QueueId, base, is_refused_input, rank
from fairlead_edge.outbox.receipts.departure import Departure


class _KeptMessage(msgspec.Struct):
    epoch: int
    topic: str
    enqueued: float
    expires: float | None
    content: bytes
    segment: int
    inherits: str

    def gone(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now


class _MemoryLog:
    """One queue."""

    def __init__(self) -> None:
        self.kept: dict[int, _KeptMessage] = {}  # by offset, in order
        self.attempts: dict[int, Attempt] = {}
        self.next_offset = 0
        self.checkpoint = NOTHING_DONE
        self.accepted = self.sent = self.expired = self.evicted = 0

    def live(self, offset: int, now: float) -> bool:
        return offset > self.checkpoint and not self.kept[offset].gone(now)


class MemoryOutbox:
    """See ``outbox.Outbox``; nothing survives the process."""

    def __init__(self, *, epoch: int, max_bytes: int, refused: RefusedInputPolicy = REFUSED_INPUT_DEFAULT) -> None:
        self.epoch = epoch
        self.max_bytes = max_bytes
        self.refused_bytes_max = int(max_bytes * refused.share)
        self._refused_seconds = refused.seconds
        self._refused_at: dict[int, float] = {}
        self.in_flight = InFlight()
        self._logs: dict[QueueId, _MemoryLog] = {}
        self._references: Counter[int] = Counter()
        self._segment_bytes: dict[int, int] = {}
        self._dead: dict[int, DeadLetter] = {}
        self._acks: dict[str, tuple[bytes, bytes, float]] = {}
        self._bytes = 0
        self._ttl_seconds: dict[str, float | None] = {}
        self._next_segment = 1
        self._next_letter = 1

    async def append(
        self, entries: Sequence[Entry], *, now: float, idempotency: IdempotencyKey | None = None, evict: bool = False
    ) -> bytes | None:
        if idempotency is not None and idempotency.key in self._acks:
            digest, answer, _ = self._acks[idempotency.key]
            if digest != idempotency.digest:
                raise KeyReused(idempotency.key)
            return answer
        wanted = cost(entries)
        if self._bytes + wanted > self.max_bytes:
            excess = self._bytes + wanted - self.max_bytes
            letters = self._refused_evictable(excess=excess)
            excess -= sum(outbox.letter_cost(len(letter.content)) for letter in letters)
            evicted = [] if excess <= 0 else self._evictable(entries, excess) if evict else None
            if evicted is None:
                raise StoreFull(f"the store holds {self._bytes} of {self.max_bytes} bytes, {wanted} more do not fit")
            self._evict_letters(letters)
            for queue, offset in evicted:
                self._remove(self._logs[queue], offset)
                self._logs[queue].evicted += 1
                self.in_flight.ended(queue, (offset,))
        self._bytes += wanted
        self._append(outbox.inheriting(entries, self._ttl_seconds), now)
        if idempotency is not None:
            self._acks[idempotency.key] = (idempotency.digest, idempotency.answer, now)
        return None

    async def refuse(self, refused: Sequence[RefusedMessage], *, now: float, at: str) -> None:
        await self.append([each.entry for each in refused], now=now)
        for queue, refusals in outbox.last_refused(refused, lambda queue: self._logs[queue].next_offset).items():
            await self.settle(queue, refused=refusals, checkpoint=NOTHING_DONE, at=at)
        self._date_refused(now)
        self._evict_letters(self._refused_evictable())

    async def queues(self) -> list[QueueId]:
        return sorted(self._logs)

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
        items: list[Item] = []
        log = self._logs.get(queue) or _MemoryLog()
        for offset, kept in log.kept.items():
            if offset <= after or not log.live(offset, now) or (only is not None and offset not in only):
                continue
            items.append(Item(offset, kept.epoch, kept.topic, kept.enqueued, kept.expires, kept.content))
            bytes_max -= len(kept.content)
            if len(items) == messages_max or bytes_max <= 0:
                break
        if leaving:
            self.in_flight.take(queue, [item.offset for item in items])
        return items

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
        self.in_flight.decided(queue, [*sent, *(refusal.offset for refusal in refused)])
        log = self._logs.get(queue)
        if log is None:
            return
        for refusal in refused:
            kept = self._remove(log, refusal.offset)
            if kept is not None:
                self._dead_letter(queue, refusal, kept, at)
        log.sent += sum(self._remove(log, offset) is not None for offset in sent)
        log.checkpoint = max(log.checkpoint, min(checkpoint, log.next_offset - 1))

    async def route_again(self, queue: QueueId, routed: Sequence[tuple[int, Entry | None]], *, now: float) -> int:
        log = self._logs.get(queue) or _MemoryLog()
        there = [(offset, entry) for offset, entry in routed if offset in log.kept]
        entries = [entry for _, entry in there if entry is not None]
        freed = Counter(log.kept[offset].segment for offset, _ in there)
        room = len(there) * outbox.REFERENCE_BYTES
        room += sum(self._segment_bytes[each] for each, count in freed.items() if count == self._references[each])
        if entries and self._bytes - room + cost(entries) > self.max_bytes:
            raise StoreFull("the store is full")
        for offset, _ in there:
            self._remove(log, offset)
        log.sent += len(there)
        self._bytes += cost(entries)
        self._append(entries, now)
        return len(there)

    async def checkpoint(self, queue: QueueId) -> int:
        log = self._logs.get(queue)
        return NOTHING_DONE if log is None else log.checkpoint

    async def note_attempts(self, queue: QueueId, attempts: Sequence[Attempt]) -> None:
        log = self._logs.get(queue)
        if log is not None:
            log.attempts.update({each.offset: each for each in attempts if each.offset in log.kept})

    async def attempts(self) -> dict[QueueId, list[Attempt]]:
        found = {queue: [log.attempts[at] for at in sorted(log.attempts)] for queue, log in self._logs.items()}
        return {queue: attempts for queue, attempts in found.items() if attempts}

    async def sweep(self, *, now: float, entire: bool) -> int:
        for key in [key for key, (_, _, at) in self._acks.items() if at < now - outbox.IDEMPOTENCY_SECONDS]:
            del self._acks[key]
        swept = self._expire_refused(now)
        for queue, log in self._logs.items():
            out = self.in_flight.of(queue)
            for offset in list(log.kept):
                if offset in out:
                    continue
                if log.live(offset, now):
                    if entire:
                        continue
                    break
                if swept >= outbox.SWEEP_ROWS:
                    return swept
                self._remove(log, offset)
                self.in_flight.ended(queue, (offset,))
                log.expired += 1
                swept += 1
        return swept

    async def inherit(self, ttl_seconds: Mapping[str, float | None], *, now: float) -> None:
        self._ttl_seconds = {**ttl_seconds}
        for log in self._logs.values():
            for kept in log.kept.values():
                if kept.inherits in ttl_seconds and not kept.gone(now):
                    ttl = ttl_seconds[kept.inherits]
                    kept.expires = None if ttl is None else kept.enqueued + ttl

    async def shrink(self) -> int:
        return 0

    async def status(self, *, now: float) -> OutboxStatus:
        dead = Counter(letter.queue for letter in self._dead.values())
        found = []
        for queue, log in sorted(self._logs.items()):
            out = self.in_flight.of(queue)
            live = [kept for offset, kept in log.kept.items() if offset in out or log.live(offset, now)]
            found.append(
                QueueCounts(
                    endpoint=queue.endpoint,
                    priority=queue.priority,
                    queue=str(queue),
                    length=len(live),
                    bytes=sum(len(kept.content) for kept in live),
                    oldest_age_seconds=max(0.0, now - live[0].enqueued) if live else 0.0,
                    accepted=log.accepted,
                    sent=log.sent,
                    expired=log.expired + len(log.kept) - len(live),
                    evicted=log.evicted,
                    dead_lettered=dead[queue],
                    checkpoint=log.checkpoint,
                    in_doubt=self.in_flight.ended_in_doubt[queue],
                )
            )
        refused = self._refused()
        return OutboxStatus(
            queues=tuple(found),
            bytes=self._bytes,
            max_bytes=self.max_bytes,
            dead_letters=len(self._dead),
            refused_letters=len(refused),
            refused_bytes=sum(outbox.letter_cost(len(letter.content)) for letter in refused),
            refused_bytes_max=self.refused_bytes_max,
        )

    async def dead_letters(self, *, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        return [letter for number, letter in self._dead.items() if number > after][:limit]

    async def discard(self, numbers: Sequence[int]) -> int:
        return self._evict_letters([self._dead[number] for number in set(numbers) if number in self._dead])

    async def replay(
        self, numbers: Sequence[int] | None, *, now: float, limit: int = outbox.DEAD_LETTER_PAGE_MAX
    ) -> int:
        wanted = self._dead if numbers is None else set(numbers)
        letters = [letter for letter in self._dead.values() if letter.number in wanted][:limit]
        for letter in letters:
            self._drop_letter(letter)
            self._logs[letter.queue].accepted -= 1
        self._bytes += cost([replayed(letter) for letter in letters])
        self._append([replayed(letter) for letter in letters], now)
        return len(letters)

    def _refused(self) -> list[DeadLetter]:
        """Dead letters of refused input, oldest first."""
        return [letter for letter in self._dead.values() if is_refused_input(letter.queue.endpoint)]

    def _date_refused(self, now: float) -> None:
        for letter in self._refused():
            self._refused_at.setdefault(letter.number, now)

    def _expire_refused(self, now: float) -> int:
        if not self._refused_seconds:
            return 0
        self._date_refused(now)
        old = [each for each in self._refused() if self._refused_at[each.number] <= now - self._refused_seconds]
        for letter in old:
            self._drop_letter(letter)
            self._logs[letter.queue].expired += 1
        return len(old)

    def _refused_evictable(self, excess: int = 0) -> list[DeadLetter]:
        letters = self._refused()
        costs = [outbox.letter_cost(len(letter.content)) for letter in letters]
        return letters[: outbox.refused_to_evict(costs, bytes_max=self.refused_bytes_max, excess=excess)]

    def _evict_letters(self, letters: Sequence[DeadLetter]) -> int:
        for letter in letters:
            self._drop_letter(letter)
            self._logs[letter.queue].evicted += 1
        return len(letters)

    def _drop_letter(self, letter: DeadLetter) -> None:
        del self._dead[letter.number]
        self._bytes -= outbox.letter_cost(len(letter.content))

    def _evictable(self, entries: Sequence[Entry], excess: int) -> list[tuple[QueueId, int]] | None:
        """What must be evicted, in steps, to free ``excess`` bytes; None if that would not be enough."""
        left = Counter(self._references)
        found: list[tuple[QueueId, int]] = []
        for queue in sorted(self._logs, key=lambda queue: (-rank(queue.priority), queue.endpoint)):
            if base(queue.priority) <= least_urgent(entries):
                break
            offsets = self.in_flight.not_in_flight(queue, self._logs[queue].kept)
            for first in range(0, len(offsets), outbox.EVICT_ROWS):
                for offset in offsets[first : first + outbox.EVICT_ROWS]:
                    segment = self._logs[queue].kept[offset].segment
                    found.append((queue, offset))
                    left[segment] -= 1
                    excess -= outbox.REFERENCE_BYTES + (0 if left[segment] else self._segment_bytes[segment])
                if excess <= 0:
                    return found
        return None

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
        log = self._logs.setdefault(reference.queue, _MemoryLog())
        log.kept[log.next_offset] = _KeptMessage(
            self.epoch, reference.topic, now, expires, entry.content, segment, reference.inherits
        )
        log.next_offset += 1
        log.accepted += 1

    def _remove(self, log: _MemoryLog, offset: int) -> _KeptMessage | None:
        kept = log.kept.pop(offset, None)
        log.attempts.pop(offset, None)
        if kept is not None:
            self._references[kept.segment] -= 1
            self._bytes -= outbox.REFERENCE_BYTES
            if not self._references[kept.segment]:
                del self._references[kept.segment]
                self._bytes -= self._segment_bytes.pop(kept.segment)
        return kept

    def _dead_letter(self, queue: QueueId, refusal: Refusal, kept: _KeptMessage, at: str) -> None:
        self._bytes += outbox.letter_cost(len(kept.content))
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
