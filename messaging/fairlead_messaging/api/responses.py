"""Answers of the messaging service: the server encodes these types, and the clients decode them.

Ids and positions are hex text.  Fields have the names and the order of the interface; clients ignore fields that a
newer service adds.  Times called ``…_ms`` are milliseconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from fairlead_messaging.api.requests import GivenPolicy
from fairlead_wire.delivery_policy import DeliveryPolicy

How = Literal["commit", "abort", "invalidate"]
EndedBy = Literal["", "timeout", "lifetime", "hold_up", "invalidate", "conflict"]
"""Why a transaction did not commit: it was not renewed in time; it reached the greatest age; it held up a topic's
readers for as long as the topic allows; a client or an operator invalidated it; it conflicted.  "" for all others."""


class Topic(msgspec.Struct, frozen=True):
    """``properties`` are texts and always include ``ttl`` and ``generation``; ``delivery`` is the policy as given."""

    name: str
    properties: dict[str, str | GivenPolicy]


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """With a producer: the sequences that this call stored, and those that an earlier call had stored."""

    stored: tuple[int, ...] = ()
    known: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The answer to a publish with a producer, and the positions of its messages (from the headers of the answer).

    Of a publish without a producer all is empty, although the messages are stored.

    Stored messages have consecutive positions from ``first`` (hex id) on, in the order of the request; messages that
    were known are not after ``newest``.
    """

    stored: tuple[int, ...] = ()
    known: tuple[int, ...] = ()
    service: str = ""
    generation: int = 0
    first: str = ""
    newest: str = ""


class PublishedByProducer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a publish with a producer."""

    producer: Published


class Message(msgspec.Struct, frozen=True):
    """A message; its ``id`` (hex) can be used as a start."""

    id: str
    payload: bytes

    @property
    def published_ms(self) -> int:
        """When it was published, which its id begins with; 0 if the id is malformed."""
        try:
            return int(self.id[:16], 16)
        except ValueError:
            return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """``next_position`` (hex) is the exclusive start of the next page, even if this page is empty."""

    messages: tuple[Message, ...]
    next_position: str


class Started(msgspec.Struct, frozen=True):
    """A new transaction: ``transaction`` is the snapshot to poll with, ``expires`` is in milliseconds since 1970."""

    transactionWritePointer: int
    transaction: bytes
    expires: int


class Finished(msgspec.Struct, frozen=True):
    """``state``: committed, aborted or invalid."""

    transactionWritePointer: int
    state: str


class Renewed(msgspec.Struct, frozen=True):
    """``expires`` and ``renewable``, the latest time to which it can be renewed, are milliseconds since 1970."""

    transactionWritePointer: int
    expires: int
    renewable: int


class HeldTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic whose readers a transaction holds up: since when, and until when at most (milliseconds since 1970)."""

    topic: str
    since: int
    until: int = 0


class StoredPayloads(msgspec.Struct, frozen=True, kw_only=True):
    """Payloads that a transaction has stored for a topic and not published; they hold up no reader."""

    topic: str
    messages: int
    bytes: int


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction, and the topics whose readers it holds up.  Times are milliseconds since 1970.

    It ``expires`` unless it is renewed, by ``timeout`` seconds at a time, up to ``renewable``.

    A finished one has ``ended`` and, if it did not commit, ``ended_by``; ``marked``: all its messages are marked as
    rolled back.
    """

    transactionWritePointer: int
    state: str
    started: int
    expires: int
    topics: tuple[HeldTopic, ...] = ()
    timeout: float = 0.0
    renewable: int = 0
    stored: tuple[StoredPayloads, ...] = ()
    ended: int | None = None
    ended_by: EndedBy = ""
    marked: bool = False


class Table(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a reader that fills a table noted with its position (``requests.TableNote``).

    It has taken everything after ``start`` up to the position.
    """

    name: str
    application: str = ""
    start: str
    batch: int | None = None
    version: int | None = None
    rowless: int | None = None


class Reader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``lag_messages`` counts what was stored after its position; ``lag_seconds`` is the age of the first of these.

    ``table``: the table that the reader fills, if any.  Headers of the answer have the ``service`` and ``generation``
    that the position belongs to.
    """

    name: str
    position: str
    updated_ms: int
    lag_messages: int
    lag_seconds: float
    service: str = ""
    generation: int = 0
    table: Table | None = None


class Inspected(msgspec.Struct, frozen=True, kw_only=True):
    """``state``: visible, undecided (its transaction is open), hidden (rolled back or aborted) or expired."""

    id: str
    state: str
    payload: bytes
    published_ms: int
    ttl_seconds: int
    transaction: int | None = None


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A push subscription and its progress; ``position`` is the last message delivered or given up.

    ``state`` is delivering, retrying, dead_letters_waiting or paused, with a ``reason``; ``waiting_dead_letters`` were
    given up but cannot be written to their topic yet.  ``delivery`` is its policy as given, ``effectiveDelivery`` the
    policy in effect: its own, else the topic's, else the default; the topic's if that has
    ``ignore_subscription_override``.
    """

    name: str
    url: str
    delivery: GivenPolicy | None = None
    effectiveDelivery: DeliveryPolicy = DeliveryPolicy()
    dead_letter_topic: str | None = None
    position: str = ""
    attempts: int = 0
    waited_seconds: float = 0.0
    previous_seconds: float = 0.0
    next_attempt_ms: int = 0
    last_error: str = ""
    delivered: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    expired: int = 0
    dead_letter_error: str = ""
    revision: str = ""
    waiting_dead_letters: int = 0
    state: str = "delivering"
    reason: str = ""


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a topic: ``after`` exclusive, ``upto`` inclusive, as hex ids; "" is before the first message."""

    after: str
    upto: str
    rows: int
    bytes: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How to read a part of a topic: where it ends, how much it holds, and how to split it."""

    service: str
    generation: int
    oldest: str | None = None
    stable: str | None = None
    upto: str | None = None
    rows: int = 0
    bytes: int = 0
    # How many messages the topic ever had up to ``upto``, or up to ``stable`` where nothing is left to read.
    passed: int | None = None
    ranges: list[Range] = []
    # The transaction readers wait for, and since when (milliseconds since 1970).
    held_by: int | None = None
    held_since: int | None = None


class Offset(msgspec.Struct, frozen=True, kw_only=True):
    """The requested ``position``, and the ends of the topic at that moment; reading must stop at ``stable``."""

    service: str
    generation: int
    position: str | None = None
    stable: str | None = None
    oldest: str | None = None
    # How many messages the topic ever had up to ``position``.
    passed: int | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``status``: ok, ready, or why not; ``service`` identifies the data directory.

    ``transactions``: why calls that need transactions are refused while all others are served; otherwise absent.
    """

    status: str
    service: str | None = None
    transactions: str | None = None
