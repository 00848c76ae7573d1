"""Answers of the messaging service: the server encodes these types, the clients decode them.

Ids and positions are hex text.  Field names are those of the interface, in the order in which they are written; clients
ignore fields that a newer service adds.  Times called ``…_ms`` are milliseconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from fairlead_messaging.api.requests import GivenPolicy
from fairlead_wire.delivery_policy import DeliveryPolicy

How = Literal["commit", "abort", "invalidate"]
EndedBy = Literal["", "timeout", "lifetime", "hold_up", "invalidate", "conflict"]
"""Why a transaction did not commit: not renewed in time; as old as one may be; it held up a topic's readers for as long
as the topic allows; a client or an operator invalidated it; a conflict.  "" for all others."""


class Topic(msgspec.Struct, frozen=True):
    """``properties`` as text, ``ttl`` and ``generation`` always among them; ``delivery``, when it has one, as given."""

    name: str
    properties: dict[str, str | GivenPolicy]


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """With a producer: the sequences stored by this call, and those known from an earlier one."""

    stored: tuple[int, ...] = ()
    known: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The answer to a publish with a producer, and where the messages stand (headers of the answer).

    What was stored has consecutive positions from ``first`` (hex id) on, in the order of the request; what was known
    stands at ``newest`` or before.
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
    """``id`` is hex; as a start it names this very message."""

    id: str
    payload: bytes

    @property
    def published_ms(self) -> int:
        """When it was published, which the id begins with; 0 for an id that is none."""
        try:
            return int(self.id[:16], 16)
        except ValueError:
            return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """``next_position`` (hex) is the exclusive start of the next page, also of an empty one."""

    messages: tuple[Message, ...]
    next_position: str


class Started(msgspec.Struct, frozen=True):
    """A transaction: ``transaction`` is the snapshot to poll with, ``expires`` is in milliseconds since 1970."""

    transactionWritePointer: int
    transaction: bytes
    expires: int


class Finished(msgspec.Struct, frozen=True):
    """``state``: committed, aborted or invalid."""

    transactionWritePointer: int
    state: str


class Renewed(msgspec.Struct, frozen=True):
    """``expires`` in milliseconds since 1970; ``renewable`` is how far renewals can carry it."""

    transactionWritePointer: int
    expires: int
    renewable: int


class HeldTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic whose readers of committed messages have to wait: since when, and until when at most (milliseconds since
    1970)."""

    topic: str
    since: int
    until: int = 0


class StoredPayloads(msgspec.Struct, frozen=True, kw_only=True):
    """What a transaction stored in a topic and did not publish yet; it holds up no reader."""

    topic: str
    messages: int
    bytes: int


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction, and the topics whose readers wait for it.  Times in milliseconds since 1970: it ``expires`` unless
    it is renewed, ``timeout`` seconds at a time, up to ``renewable`` at most.

    Finished ones have ``ended`` and, when they did not commit, ``ended_by``; ``marked``: every message of it carries
    the mark of rolled-back ones.
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
    """What a reader that fills a table said of it with its position (``requests.TableNote``); all after ``start`` up to
    the position is taken."""

    name: str
    application: str = ""
    start: str
    batch: int | None = None
    version: int | None = None
    rowless: int | None = None


class Reader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``lag_messages`` counts what was stored after its position; ``lag_seconds`` is the age of the first of these.

    ``table``: of a reader that fills one.  ``service`` and ``generation``, of which topic the position is, are headers
    of the answer.
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
    """A push subscription and how it goes; ``position`` is the last message dealt with.

    ``state`` is delivering, retrying, dead_letters_waiting or paused, ``reason`` why; ``waiting_dead_letters`` were
    given up and cannot be written to their topic yet.  ``delivery`` is its own policy as it was given,
    ``effectiveDelivery`` the one that counts: its own, else the topic's, else the default; the topic's when that says
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
    """Part of a topic: ``after`` exclusive, ``upto`` inclusive, as hex ids; "" is before the first."""

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
    # Messages the topic had ever held up to ``upto``, or up to ``stable`` where nothing is left to read.
    passed: int | None = None
    ranges: list[Range] = []
    # The transaction readers wait for, and since when (milliseconds since 1970).
    held_by: int | None = None
    held_since: int | None = None


class Offset(msgspec.Struct, frozen=True, kw_only=True):
    """Where a topic stood when asked; ``position`` answers the question, ``stable`` is where reading must stop."""

    service: str
    generation: int
    position: str | None = None
    stable: str | None = None
    oldest: str | None = None
    # Messages the topic had ever held up to ``position``.
    passed: int | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``status``: ok, ready, or why not; ``service`` names the data directory.

    ``transactions``: why calls that need them are refused while all others are served; absent when they are not.
    """

    status: str
    service: str | None = None
    transactions: str | None = None
