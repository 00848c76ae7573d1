"""Messages a module has taken and not yet acknowledged (brokered endpoints).

A lease ends by ``ack`` (the message is done), ``abandon`` (it is there again at once) or by time (it is there
again, but a late ack still counts: the work was done).  Leases live in memory: after a restart of the agent what
was not acknowledged is there again, so a module may see a message twice and never misses one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.queue_id import QueueId

LEASE_SECONDS: Final = 60.0
LEASED_MAX: Final = 1000
"""Messages one endpoint may have leased at once; a module that never acknowledges gets no more."""


class Leased(msgspec.Struct, frozen=True, kw_only=True):
    """A message in the hands of a module."""

    id: str
    priority: int
    message: envelope.Stored
    attempt: int


class _Lease(msgspec.Struct, frozen=True):
    queue: QueueId
    offset: int
    until: float
    attempt: int


class Leases:
    """The leases of one endpoint."""

    def __init__(self) -> None:
        self._by_id: dict[str, _Lease] = {}

    def room(self, now: float) -> int:
        """How many more may be leased now."""
        return LEASED_MAX - sum(lease.until > now for lease in self._by_id.values())

    def held(self, queue: QueueId, now: float) -> set[int]:
        """Offsets of this queue that are in a module's hands."""
        return {lease.offset for lease in self._by_id.values() if lease.queue == queue and lease.until > now}

    def take(self, queue: QueueId, items: Iterable[Item], now: float) -> list[Leased]:
        """Lease these; the caller left out what ``held`` names."""
        taken = []
        for item in items:
            message = envelope.read(item.content)
            known = self._by_id.get(message.id)
            attempt = known.attempt + 1 if known else 1
            self._by_id[message.id] = _Lease(queue, item.offset, now + LEASE_SECONDS, attempt)
            taken.append(Leased(id=message.id, priority=queue.priority, message=message, attempt=attempt))
        return taken

    def ack(self, ids: Sequence[str]) -> tuple[dict[QueueId, list[int]], list[str]]:
        """Offsets that are done, by queue, and the ids that are not leased (any more)."""
        done: dict[QueueId, list[int]] = defaultdict(list)
        unknown = []
        for id in ids:
            lease = self._by_id.pop(id, None)
            if lease is None:
                unknown.append(id)
            else:
                done[lease.queue].append(lease.offset)
        return done, unknown

    def abandon(self, ids: Sequence[str], now: float) -> tuple[dict[QueueId, list[int]], list[str]]:
        """Give back; returns offsets by queue, and the ids that are not leased (any more)."""
        given: dict[QueueId, list[int]] = defaultdict(list)
        unknown = []
        for id in ids:
            lease = self._by_id.get(id)
            if lease is None:
                unknown.append(id)
            else:
                self._by_id[id] = msgspec.structs.replace(lease, until=now)
                given[lease.queue].append(lease.offset)
        return given, unknown

    def forget_ended(self, now: float) -> dict[QueueId, list[int]]:
        """Drop leases that ended one lease time ago, and return their offsets: no ack is waited for any more."""
        forgotten: dict[QueueId, list[int]] = defaultdict(list)
        for id in [id for id, lease in self._by_id.items() if lease.until + LEASE_SECONDS <= now]:
            lease = self._by_id.pop(id)
            forgotten[lease.queue].append(lease.offset)
        return forgotten

    def next_end(self, now: float) -> float | None:
        """When the next lease ends; None when there is none."""
        return min((lease.until for lease in self._by_id.values() if lease.until > now), default=None)
