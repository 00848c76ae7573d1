"""Requests to the messaging service: the server decodes these types, the clients encode them.

Field names are those of the interface.  Unknown fields are rejected, so that a misspelt one is never ignored.  Limits
in the schema are documentation: the server checks them where it turns a request into a command, each with its own error
code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

WAIT_MS_MAX = 60_000
"""Longer waits are reduced to this."""
LIMIT_MAX = 2**31 - 1
SPLITS_MAX = 1024
INSPECT_LIMIT_DEFAULT = 100
INSPECT_LIMIT_MAX = 1000
TIMEOUT_SECONDS_DEFAULT = 30.0
LIST_LIMIT_DEFAULT = 100
LIST_LIMIT_MAX = 1000
CHANGES_MAX = 10_000
CHANGE_CHARS_MAX = 1024
TABLE_CHARS_MAX = 1024
APPLICATION_CHARS_MAX = 256

Isolation = Literal["none", "read_committed"]
TransactionState = Literal["in_progress", "committed", "aborted", "invalid", "ended"]


def _limits(description: str, **schema: Any) -> Meta:
    return Meta(description=description, extra_json_schema=schema or None)


Bound = Annotated[str | None, _limits('A message id in hex; "" and null mean no bound.')]
Limit = Annotated[int | None, _limits("The maximum number; the limits of the service apply too.", minimum=1)]
WaitMs = Annotated[int | None, _limits(f"How long to wait for something to read, at most {WAIT_MS_MAX}.", minimum=0)]
Generation = Annotated[int | None, _limits("409 generation_changed if the topic has another generation.")]
Pointer = Annotated[int | None, _limits("The transaction that this belongs to; null: none.")]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The base class of all requests."""


class Producer(Request, frozen=True):
    """The producer of the messages.  ``sequence`` is the number of the first one, or ``sequences`` has one for each.

    ``fence``: refuse older epochs from now on.
    """

    id: str
    epoch: int
    sequence: int | None = None
    sequences: Sequence[int] | None = None
    fence: bool = False


class MessageToPublish(Request, frozen=True):
    """A payload with an optional time to live, in seconds."""

    payload: bytes
    ttl: int | str | None = None


class PublishRequest(Request, frozen=True):
    """Publish or store messages.  Without messages, in a transaction: publish what was stored under it."""

    transactionWritePointer: Pointer = None
    messages: list[bytes | MessageToPublish] | None = None
    producer: Producer | None = None


class PollRequest(Request, frozen=True):
    """One page of messages."""

    startFrom: Annotated[
        str | int | None, _limits("A message id in hex, milliseconds since 1970, or null for the oldest message.")
    ] = None
    inclusive: bool = True
    limit: Limit = None
    transaction: Annotated[bytes | None, _limits("The snapshot from the answer that started a transaction.")] = None
    isolation: Annotated[
        Isolation | None, _limits("read_committed stops before the first message of an open transaction.")
    ] = None
    wait_ms: WaitMs = None


class ArrowPollRequest(Request, frozen=True):
    """One Arrow page: ``after`` is exclusive, ``upto`` inclusive."""

    after: Bound = None
    upto: Bound = None
    limit_rows: Limit = None
    limit_bytes: Limit = None
    isolation: Annotated[Isolation | None, _limits("read_committed by default.")] = None
    generation: Generation = None


class PlanRequest(Request, frozen=True):
    """Plan how to read a topic after ``after``, split into ranges."""

    after: Bound = None
    upto: Bound = None
    limit_rows: Limit = None
    limit_bytes: Limit = None
    splits: Annotated[int | None, _limits("The number of ranges.", minimum=1, maximum=SPLITS_MAX)] = None
    wait_ms: WaitMs = None
    generation: Generation = None


_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class TableNote(Request, frozen=True):
    """What a reader that fills a table reports: the batch and table version that reached its position, and ``rowless``,
    how many of the messages read so far got no row (dead letters, filtered, expired unread).

    ``start``: as far as this note knows, the reader has taken everything after it.  A note continues the earlier notes
    of its ``application``: what they covered stays covered.
    """

    name: Annotated[str, Meta(min_length=1, max_length=TABLE_CHARS_MAX)]
    application: Annotated[str, Meta(max_length=APPLICATION_CHARS_MAX)]
    start: str
    batch: _Number | None = None
    version: _Number | None = None
    rowless: _Number | None = None


class NoteReaderRequest(Request, frozen=True):
    """How far a named reader has durably read; ``table``: the table that it fills, if any."""

    position: str
    generation: Generation = None
    table: TableNote | None = None


class StartRequest(Request, frozen=True):
    """Begin or renew a transaction."""

    timeout: Annotated[
        float | None,
        _limits(
            "Seconds until it becomes invalid by itself, at most [transactions] timeout_seconds_max; when absent "
            f"{TIMEOUT_SECONDS_DEFAULT:g} at its start, and its own at a renewal.",
            exclusiveMinimum=0,
        ),
    ] = None


class TransactionsQuery(Request, frozen=True):
    """The query of ``transactions``; the state ``ended`` stands for all but those in progress."""

    state: TransactionState = "in_progress"
    limit: Annotated[int, _limits("How many finished ones.", minimum=1, maximum=LIST_LIMIT_MAX)] = LIST_LIMIT_DEFAULT
    before: Annotated[int | None, _limits("Only finished ones that began before this pointer.")] = None


class CommitRequest(Request, frozen=True):
    """``changes``: the keys it changed; it aborts if a transaction that committed since it began changed one too."""

    changes: Annotated[list[str], _limits("The changed keys.", maxItems=CHANGES_MAX)] = []


class RollbackDetail(Request, frozen=True, omit_defaults=False):
    """The answer to a publish in a transaction; a rollback sends it back unchanged."""

    transactionWritePointer: int
    startTimestamp: int
    startSequenceId: int
    endTimestamp: int
    endSequenceId: int


GivenPolicy = Annotated[
    dict[str, Any],
    Meta(
        description="A delivery policy as it was given; absent fields have their defaults.",
        extra_json_schema={"$ref": "#/components/schemas/DeliveryPolicy"},
    ),
]
"""Any of the fields of a ``DeliveryPolicy``."""


class SubscriptionRequest(Request, frozen=True):
    """``dead_letter_topic`` (``namespace/name``) receives undeliverable messages.

    ``delivery``: the delivery policy of the subscription, null for that of the topic.
    """

    url: str
    delivery: GivenPolicy | None = None
    dead_letter_topic: str | None = None


Properties = dict[str, str | int | GivenPolicy]
"""Properties of a topic: ``ttl`` (seconds), ``transactional`` (allowed, required, refused), ``hold_up_seconds_max``
(how long an open transaction may hold up its readers), ``delivery`` (the delivery policy of its subscriptions), and any
others, which are kept as text."""


class OffsetsQuery(Request, frozen=True):
    """The query of ``offsets``."""

    ts: Annotated[
        str, _limits("Milliseconds since 1970, or earliest or latest.", pattern="^([0-9]{1,19}|earliest|latest)$")
    ]


class InspectQuery(Request, frozen=True):
    """The query of ``inspect``."""

    after: Bound = None
    limit: Annotated[
        int, _limits("How many rows; the service has a maximum too.", minimum=1, maximum=INSPECT_LIMIT_MAX)
    ] = INSPECT_LIMIT_DEFAULT


class AvroPublishQuery(Request, frozen=True):
    """The fields of a publish or store that its Avro schema lacks."""

    ttl: str | None = None
    producer_id: str | None = None
    epoch: int | None = None
    sequence: int | None = None
    sequences: Annotated[str | None, _limits("Numbers separated by commas.")] = None
    fence: bool | None = None


class AvroPollQuery(Request, frozen=True):
    """The fields of a poll that its Avro schema lacks."""

    isolation: Isolation | None = None
    wait_ms: WaitMs = None
