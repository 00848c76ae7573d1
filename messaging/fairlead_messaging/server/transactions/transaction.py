"""One transaction: its pointer, its state and what it touched.

in_progress ─→ committed            every message decided at once
    ├────────→ aborted ─┐
    └────────→ invalid ─┴→ marked   every row marked, so that readers need not know the pointer
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import msgspec

from fairlead_messaging.api.errors import StorageError, Unavailable
from fairlead_messaging.api.message_id import Position
from fairlead_messaging.api.responses import EndedBy
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.store.ordered_kv import Gets, Snapshot


class TransactionState(Enum):
    IN_PROGRESS = "in_progress"
    COMMITTED = "committed"
    ABORTED = "aborted"
    INVALID = "invalid"


class Rolling(msgspec.Struct, frozen=True, array_like=True):
    """A rollback in progress: its range, and where its next slice begins."""

    first: Position
    last: Position
    reached: Position


class Touched(msgspec.Struct, kw_only=True):
    """What a transaction did in one topic.

    ``first`` … ``last`` bound its message rows that may be uncommitted (None: none), ``begin`` is its first row, rolled
    back or not.  ``stored`` and ``published`` are positions in the payload table, ``pending_*`` counts what was stored
    since the last publish.  ``shortest_ttl`` (seconds, 0: none) is the shortest own ttl of its messages.
    ``hold_up_seconds``: the limit of the topic at the last publish, 0 if it had none.
    """

    namespace: str
    name: str
    generation: int
    first: Position | None = None
    last: Position | None = None
    stored: Position = Position(0, 0)
    published: Position = Position(0, 0)
    pending_rows: int = 0
    pending_bytes: int = 0
    begin: Position | None = None
    shortest_ttl: int = 0
    hold_up_seconds: int = 0
    rolling: Rolling | None = None

    @property
    def topic(self) -> TopicGeneration:
        """Enough of the topic to build keys with."""
        return TopicGeneration(namespace=self.namespace, name=self.name, generation=self.generation, ttl_seconds=1)

    @property
    def has_stored(self) -> bool:
        """Whether payloads were ever stored, even if they have been published."""
        return self.stored > Position(0, 0)

    def is_of(self, topic: TopicGeneration) -> bool:
        return (self.namespace, self.name, self.generation) == (topic.namespace, topic.name, topic.generation)

    def extend(self, first: Position, last: Position, ttls: Iterable[int] = ()) -> None:
        """Note added rows; ``ttls``: their own times to live in seconds, 0 for none."""
        if self.last is None:
            self.begin = first
        self.first = self.first or first
        self.last = last
        self.shortest_ttl = min((each for each in (self.shortest_ttl, *ttls) if each), default=0)

    def spans(self, position: Position) -> bool:
        """Whether the position is between the first and last row of this transaction, rolled back or not."""
        return self.begin is not None and self.last is not None and self.begin <= position <= self.last

    def may_be_removed(self, position: Position, topic: TopicGeneration, now_ms: int) -> bool:
        """Whether a row of this transaction may have been here and have expired."""
        if not self.spans(position):
            return False
        ttl_seconds = min(topic.ttl_seconds, self.shortest_ttl or topic.ttl_seconds)
        return position.timestamp + ttl_seconds * 1000 < now_ms


class Transaction(msgspec.Struct, kw_only=True):
    """The durable record of a transaction; times in milliseconds."""

    pointer: int
    state: TransactionState
    started_ms: int
    expires_ms: int
    finished_ms: int = 0
    rows_marked: bool = msgspec.field(default=False, name="settled")
    """Whether all its rows are marked as rolled back, so that readers need not know it."""
    touched: list[Touched] = []
    changed: bytes = b""
    """Digests of the keys it changed, ``manager.DIGEST_BYTES`` each: a whole key may have a kilobyte."""
    finished_at: int = 0
    """The newest pointer when it finished: transactions above it began afterwards."""
    timeout_seconds: float = 0.0
    """The timeout in seconds, which a renewal may change."""
    ended_by: EndedBy = ""
    owner: str = ""
    """The subject that began it; "" if there is no access table."""

    @property
    def is_open(self) -> bool:
        """Whether readers must still know it."""
        return self.state is TransactionState.IN_PROGRESS or (
            self.state is not TransactionState.COMMITTED and not self.rows_marked
        )

    def in_topic(self, topic: TopicGeneration) -> Touched | None:
        return next((each for each in self.touched if each.is_of(topic)), None)

    def touch(self, topic: TopicGeneration) -> Touched:
        """What it did in this topic so far, to be modified; empty at first."""
        found = self.in_topic(topic)
        if found is None:
            found = Touched(namespace=topic.namespace, name=topic.name, generation=topic.generation)
            self.touched = [*self.touched, found]
        return found


class FinishedTransaction(msgspec.Struct, kw_only=True):
    """The part of a finished transaction without its keys, which may be megabytes."""

    pointer: int
    finished_ms: int = 0
    finished_at: int = 0


def decode_finished(raw: bytes) -> FinishedTransaction | None:
    """None for a damaged record."""
    try:
        return msgspec.json.decode(raw, type=FinishedTransaction)
    except ValueError:
        return None


def encode(transaction: Transaction) -> bytes:
    return msgspec.json.encode(transaction)


def decode(raw: bytes) -> Transaction:
    return msgspec.json.decode(raw, type=Transaction)


def decode_undamaged(raw: bytes) -> Transaction | None:
    """None for a damaged record."""
    try:
        return decode(raw)
    except ValueError:
        return None


class TransactionsUnavailable(Unavailable):
    """The transaction tables cannot be read; calls without transactions still work."""

    code = "transactions_unavailable"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"transactions are not available: {reason}; publishing and reading without transactions still work; "
            "the tables are read again every second, and if that keeps failing, restore data_dir from a backup"
        )
        self.reason = reason


def read_finished(source: Gets, pointer: int) -> Transaction | None:
    """A finished transaction; None if it was pruned or never existed.

    Raises: TransactionsUnavailable if it cannot be read.
    """
    try:
        raw = source.get(keys.finished(pointer))
        return decode(raw) if raw is not None else None
    except (StorageError, ValueError) as error:  # msgspec's errors are ValueErrors too
        raise TransactionsUnavailable(f"the record of transaction {pointer} cannot be read ({error})") from error


def read_open(snapshot: Snapshot) -> Iterator[Transaction]:
    """The transactions that readers must know.

    Raises: TransactionsUnavailable if one cannot be read, because it is then unknown what is committed.
    """
    place = "the table of open transactions"
    try:
        for key, raw in snapshot.scan(keys.OPEN, keys.above(keys.OPEN)):
            place = f"the record of open transaction {int.from_bytes(key[len(keys.OPEN) :], 'big')}"
            yield decode(raw)
    except (StorageError, ValueError) as error:
        raise TransactionsUnavailable(f"{place} cannot be read ({error})") from error


class TransactionView:
    """The open transactions in a snapshot of the store, which decide the state of the rows in the same snapshot.

    A pointer that is not open is committed, or its rows are marked as rolled back.
    Raises: TransactionsUnavailable if they cannot be read.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.in_progress: dict[int, Transaction] = {}
        self.aborted: set[int] = set()
        for found in read_open(snapshot):
            if found.state is TransactionState.IN_PROGRESS:
                self.in_progress[found.pointer] = found
            else:
                self.aborted.add(found.pointer)

    def spans(self, topic: TopicGeneration) -> Iterator[tuple[int, Position, Position]]:
        """(pointer, first, last): the open transactions with rows in a topic, and the bounds of these rows."""
        for each in self.in_progress.values():
            touched = each.in_topic(topic)
            if touched is not None and touched.first is not None and touched.last is not None:
                yield each.pointer, touched.first, touched.last


# --- Deadlines.
#     timeout    not renewed in time: every renewal moves it
#     lifetime   the longest a transaction may last, however often it is renewed
#     hold_up    it has held back the last stable offset of a topic for as long as the topic, or the service, allows
# The earliest of the three ends it. Payloads that are stored and not yet published hold up no reader, so only the first
# two limit a transaction of hours that stores payloads and publishes them at its end.

TIMEOUT_SECONDS_MAX = 600.0
LIFETIME_SECONDS_MAX = 86_400.0
HOLD_UP_SECONDS_MAX = 600.0
STEP_MS_MAX = 60_000
"""Clocks are routinely set back by this much: a position this far ahead still tells when it was published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLimits:
    """The limits of the settings, in seconds."""

    timeout_seconds_max: float = TIMEOUT_SECONDS_MAX
    lifetime_seconds_max: float = LIFETIME_SECONDS_MAX
    hold_up_seconds_max: float = HOLD_UP_SECONDS_MAX


class Deadline(NamedTuple):
    """The last millisecond in which it may be written to and finished, and what ends it then."""

    at_ms: int
    ended_by: EndedBy


def lifetime_end_ms(found: Transaction, limits: TransactionLimits) -> int:
    """The latest time to which it can be renewed."""
    return found.started_ms + int(limits.lifetime_seconds_max * 1000)


def held_until_ms(found: Transaction, touched: Touched, limits: TransactionLimits, now_ms: int) -> int | None:
    """Until when it may hold up the readers of one topic; None while it does not.

    Counted from its first message there that is not rolled back.  If the position of that is ahead of the clock, and so
    does not tell when it was published, from the start of the transaction, which is never later.
    """
    if touched.first is None:
        return None
    since_ms = touched.first.timestamp if touched.first.timestamp <= now_ms + STEP_MS_MAX else found.started_ms
    return since_ms + int((touched.hold_up_seconds or limits.hold_up_seconds_max) * 1000)


def deadline(found: Transaction, limits: TransactionLimits, now_ms: int) -> Deadline:
    """The deadline of a transaction in progress."""
    is_last = found.expires_ms >= lifetime_end_ms(found, limits)
    ends = [Deadline(found.expires_ms, "lifetime" if is_last else "timeout")]
    for touched in found.touched:
        held_until = held_until_ms(found, touched, limits, now_ms)
        if held_until is not None:
            ends.append(Deadline(held_until, "hold_up"))
    return min(ends)
