"""Quotas of namespaces: bytes per second, topics, stored bytes.

QuotaModel (settings) ─→ Quotas ─of(namespace)→ Quota
                                 ─ByteRate→ seconds until there is room for more
                                 ─StoredBytes→ how much a namespace holds: measured at intervals, plus what came since

Dead letters of pushes count where they are stored, and wait while there is no room.  Namespace ``system`` has no quota.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Final, Self

import msgspec
import pydantic
from pydantic import Field

from fairlead_messaging.api.message_id import position_of
from fairlead_messaging.server import access
from fairlead_messaging.server.log import bulk, running_totals, topics
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.transactions.transaction import TransactionsUnavailable, TransactionView
from fairlead_wire.event import SYSTEM_NAMESPACE
from fairlead_wire.validation import mistakes
from fairlead_wire.validation.mistakes import Mistake
from fairlead_wire.validation.model import Model

BYTES_MAX: Final = 2**50
TOPICS_MAX: Final = 1_000_000
_GLOB = re.compile(r"[A-Za-z0-9_*-]{1,200}")


class QuotaModel(Model):
    """The quota of each matching namespace; the first entry that matches applies. Beyond it: 429."""

    namespace: str
    """Name of the namespace; `*` matches any characters. Never applies to `system`, which is reserved for Fairlead."""
    bytes_per_second: Annotated[int, Field(ge=1, le=BYTES_MAX)] | None = None
    """Bytes a second of published or stored messages: their payload, plus 64 bytes each. One request may exceed a
    second's worth; later ones then wait longer."""
    topics: Annotated[int, Field(ge=0, le=TOPICS_MAX)] | None = None
    """Maximum number of topics."""
    stored_bytes: Annotated[int, Field(ge=1, le=BYTES_MAX)] | None = None
    """Maximum bytes of stored messages, counted in the same way, without expired ones."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        mistakes.refuse(self._wrong())
        return self

    def _wrong(self) -> Iterator[Mistake]:
        if not _GLOB.fullmatch(self.namespace):
            yield Mistake("namespace", "must be a namespace's name, where * stands for any characters")
        elif self.namespace == SYSTEM_NAMESPACE:
            yield Mistake("namespace", "system belongs to Fairlead and has no quota")
        if self.bytes_per_second is None and self.topics is None and self.stored_bytes is None:
            yield Mistake("", "limits nothing: give bytes_per_second, topics or stored_bytes")


class Quota(msgspec.Struct, frozen=True):
    """The limits of one namespace; None: no limit."""

    bytes_per_second: int | None = None
    topics: int | None = None
    stored_bytes: int | None = None


UNLIMITED: Final = Quota()


class Quotas:
    """By namespace."""

    def __init__(self, entries: list[QuotaModel]) -> None:
        self._entries = [
            (each.namespace, Quota(each.bytes_per_second, each.topics, each.stored_bytes)) for each in entries
        ]

    def __bool__(self) -> bool:
        return bool(self._entries)

    def of(self, namespace: str) -> Quota:
        if namespace == SYSTEM_NAMESPACE:
            return UNLIMITED
        return next((quota for glob, quota in self._entries if access.part_matches(glob, namespace)), UNLIMITED)


NAMESPACES_MAX: Final = 10_000
"""How many namespaces are remembered; a forgotten one may publish at once."""


BURST_SECONDS: Final = 1.0
"""How many seconds' worth of bytes may come at once."""


class ByteRate:
    """Limits the bytes per second of each namespace; times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._paid_at: OrderedDict[str, float] = OrderedDict()

    def wait(self, namespace: str, now: float) -> float:
        """Seconds until more bytes may come; 0: now."""
        return max(0.0, self._paid_at.get(namespace, now) - BURST_SECONDS - now)

    def take(self, namespace: str, size: int, per_second: int, now: float) -> None:
        """Count bytes that are coming in."""
        self._paid_at[namespace] = max(self._paid_at.get(namespace, now), now) + size / per_second
        self._paid_at.move_to_end(namespace)
        if len(self._paid_at) > NAMESPACES_MAX:
            self._paid_at.popitem(last=False)


class StoredBytes:
    """The size of each namespace: the last measurement, plus what has been stored since."""

    def __init__(self) -> None:
        self._measured: Mapping[str, int] = {}
        self._since: Counter[str] = Counter()
        """Stored since the current measurement began."""
        self._before: Counter[str] = Counter()
        """Stored between the beginnings of the last two measurements: the last one may have missed it."""
        self._coming: Counter[str] = Counter()

    def of(self, namespace: str) -> int:
        earlier = self._measured.get(namespace, 0) + self._before[namespace]
        return earlier + self._since[namespace] + self._coming[namespace]

    def begin(self) -> None:
        """A measurement begins."""
        self._before += self._since
        self._since.clear()

    def measured(self, sizes: Mapping[str, int]) -> None:
        """The result of the measurement."""
        self._measured = dict(sizes)
        self._before.clear()

    def coming(self, namespace: str, size: int) -> None:
        self._coming[namespace] += size

    def ended(self, namespace: str, size: int, *, stored: bool) -> None:
        """Count bytes that were coming as stored, or forget them."""
        self._coming[namespace] -= size
        if not self._coming[namespace]:
            del self._coming[namespace]
        if stored:
            self._since[namespace] += size


MESSAGE_BYTES = 64
"""The size of a message besides its payload: its key, its position in the log, its time to live."""


def counted_size(count: int, payload_bytes: int) -> int:
    return payload_bytes + MESSAGE_BYTES * count


def measure(snapshot: Snapshot, now_ms: int, counts: Callable[[str], bool]) -> dict[str, int]:
    """The size of every namespace that ``counts``."""
    found: Counter[str] = Counter()
    for topic in topics.every(snapshot):
        if topic.exists and counts(topic.namespace):
            gone = running_totals.upto(snapshot, topic, position_of(bulk.last_expired(snapshot, topic, now_ms)))
            held = running_totals.everything(snapshot, topic).minus(gone)
            found[topic.namespace] += counted_size(held.rows, held.size)
    try:
        open_ones = TransactionView(snapshot).in_progress.values()
    except TransactionsUnavailable:
        return dict(found)
    for transaction in open_ones:
        for touched in transaction.touched:
            if counts(touched.namespace):
                found[touched.namespace] += counted_size(touched.pending_rows, touched.pending_bytes)
    return dict(found)
