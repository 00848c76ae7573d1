"""One transaction: its pointer, its state and what it touched.

in_progress ─→ committed            every message decided at once
    ├────────→ aborted ─┐
    └────────→ invalid ─┴→ marked   every row marked, so that no reader needs to remember the pointer
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
    """A rollback that is being carried out: what was asked for, and where its next slice begins."""

    first: Position
    last: Position
    reached: Position


class Touched(msgspec.Struct, kw_only=True):
    """What a transaction did in one topic.

    ``first`` … ``last`` bound its message rows that may be uncommitted (None: none), ``begin`` is the first of them
    ever, rolled back or not; ``stored`` and ``published`` are positions in the payload table, ``pending_*`` what
    was stored since the last publish.  ``shortest_ttl`` (seconds, 0: none): the least of its messages' own.
    ``hold_up_seconds``: what the topic allowed at the last publish, 0 when it said nothing.
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
        """Whether payloads were ever stored, published since or not."""
        return self.stored > Position(0, 0)

    def is_of(self, topic: TopicGeneration) -> bool:
        return (self.namespace, self.name, self.generation) == (topic.namespace, topic.name, topic.generation)

    def extend(self, first: Position, last: Position, ttls: Iterable[int] = ()) -> None:
        """Rows were added; ``ttls``: their own times to live in seconds, 0 for none."""
        if self.last is None:
            self.begin = first
        self.first = self.first or first
        self.last = last
        self.shortest_ttl = min((each for each in (self.shortest_ttl, *ttls) if each), default=0)

    def spans(self, position: Position) -> bool:
        """Whether it lies between the first and the last row of this transaction, rolled back or not."""
        return self.begin is not None and self.last is not None and self.begin <= position <= self.last

    def may_be_removed(self, position: Position, topic: TopicGeneration, now_ms: int) -> bool:
        """Whether a row of this transaction could have stood here and be gone by now, past a time to live."""
        if not self.spans(position):
            return False
        ttl_seconds = min(topic.ttl_seconds, self.shortest_ttl or topic.ttl_seconds)
        return position.timestamp + ttl_seconds * 1000 < now_ms


class Transaction(msgspec.Struct, kw_only=True):
    """The durable record of one transaction; times in milliseconds."""

    pointer: int
    state: TransactionState
    started_ms: int
    expires_ms: int
    finished_ms: int = 0
    rows_marked: bool = msgspec.field(default=False, name="settled")
    """Every row of it carries the mark of rolled-back rows, so readers need not know of it."""
    touched: list[Touched] = []
    changed: bytes = b""
    """Digests of the keys it changed, ``manager.DIGEST_BYTES`` each: a whole key may have a kilobyte."""
    finished_at: int = 0
    """The newest pointer when it finished: transactions above it began afterwards."""
    timeout_seconds: float = 0.0
    """Seconds from one renewal to the next; a renewal may change it."""
    ended_by: EndedBy = ""
    owner: str = ""
    """The subject that began it; "" where there is no access table."""

    @property
    def is_open(self) -> bool:
        """Whether readers must still know of it."""
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
    """What is asked of most finished transactions: without their keys, which may be megabytes."""

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
    """Their tables cannot be read, so nothing is known of them; what needs no transactions goes on."""

    code = "transactions_unavailable"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"transactions are not available: {reason}; publishing and reading without transactions go on; "
            "this is tried again every second, and when it stays, restore data_dir from a backup"
        )
        self.reason = reason


def read_finished(source: Gets, pointer: int) -> Transaction | None:
    """A finished transaction; None when it is forgotten or never was.

    Raises: TransactionsUnavailable when it cannot be read.
    """
    try:
        raw = source.get(keys.finished(pointer))
        return decode(raw) if raw is not None else None
    except (StorageError, ValueError) as error:  # msgspec's errors are ValueErrors, too
        raise TransactionsUnavailable(f"the record of transaction {pointer} cannot be read ({error})") from error


def read_open(snapshot: Snapshot) -> Iterator[Transaction]:
    """All that readers must know of.

    Raises: TransactionsUnavailable when one cannot be read: what is committed is not known then.
    """
    place = "the table of open transactions"
    try:
        for key, raw in snapshot.scan(keys.OPEN, keys.above(keys.OPEN)):
            place = f"the record of open transaction {int.from_bytes(key[len(keys.OPEN) :], 'big')}"
            yield decode(raw)
    except (StorageError, ValueError) as error:
        raise TransactionsUnavailable(f"{place} cannot be read ({error})") from error


class TransactionView:
    """The open transactions of one store snapshot: with the rows of that same snapshot it decides everything.

    A pointer that is not open is committed, or its rows carry the rollback mark.
    Raises: TransactionsUnavailable when they cannot be read.
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
        """(pointer, first, last): the open transactions with rows in a topic, and what bounds those of each."""
        for each in self.in_progress.values():
            touched = each.in_topic(topic)
            if touched is not None and touched.first is not None and touched.last is not None:
                yield each.pointer, touched.first, touched.last


# --- Deadlines.
#     timeout    not renewed in time: every renewal moves it
#     lifetime   the longest a transaction may last, however often it is renewed
#     hold_up    it has held back the last stable offset of a topic for as long as the topic, or the service, allows
# The earliest of the three ends it. Payloads that are stored and not yet published hold up no reader, so a transaction
# of hours that stores payloads and publishes at its end is bounded by the first two alone.

TIMEOUT_SECONDS_MAX = 600.0
LIFETIME_SECONDS_MAX = 86_400.0
HOLD_UP_SECONDS_MAX = 600.0
STEP_MS_MAX = 60_000
"""Clocks are set back by so much as a matter of course: a position so little ahead still says when it was published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLimits:
    """Seconds; as the settings say."""

    timeout_seconds_max: float = TIMEOUT_SECONDS_MAX
    lifetime_seconds_max: float = LIFETIME_SECONDS_MAX
    hold_up_seconds_max: float = HOLD_UP_SECONDS_MAX


class Deadline(NamedTuple):
    """The last millisecond in which it may be written to and finished, and what ends it then."""

    at_ms: int
    ended_by: EndedBy


def lifetime_end_ms(found: Transaction, limits: TransactionLimits) -> int:
    """Beyond this no renewal carries it."""
    return found.started_ms + int(limits.lifetime_seconds_max * 1000)


def held_until_ms(found: Transaction, touched: Touched, limits: TransactionLimits, now_ms: int) -> int | None:
    """How long it may hold up the readers of one topic; None while it does not.

    Counted from its first message there that is not rolled back.  A position ahead of the clock says nothing about when
    that was published: it counts from the transaction's start then, which is never later.
    """
    if touched.first is None:
        return None
    since_ms = touched.first.timestamp if touched.first.timestamp <= now_ms + STEP_MS_MAX else found.started_ms
    return since_ms + int((touched.hold_up_seconds or limits.hold_up_seconds_max) * 1000)


def deadline(found: Transaction, limits: TransactionLimits, now_ms: int) -> Deadline:
    """Of a transaction in progress."""
    is_last = found.expires_ms >= lifetime_end_ms(found, limits)
    ends = [Deadline(found.expires_ms, "lifetime" if is_last else "timeout")]
    for touched in found.touched:
        held_until = held_until_ms(found, touched, limits, now_ms)
        if held_until is not None:
            ends.append(Deadline(held_until, "hold_up"))
    return min(ends)
