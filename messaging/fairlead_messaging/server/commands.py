"""What callers ask the service to change: one frozen record per wish, and what each answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairlead_messaging.api.message_id import Position
from fairlead_messaging.server.log.kv import Batch
from fairlead_messaging.server.producers.producer import Producer
from fairlead_messaging.server.subscriptions.subscription import Subscription


class Message(NamedTuple):
    """A payload and its own time to live in seconds; 0 means the topic's."""

    payload: bytes
    ttl_seconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Answers the Topic; Conflict when it exists."""

    namespace: str
    name: str
    ttl_seconds: int
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTopic:
    """Replaces all properties, keeps the generation; answers the Topic."""

    namespace: str
    name: str
    ttl_seconds: int
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """Its messages are unreachable at once and removed later."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Answers Published."""

    namespace: str
    name: str
    messages: list[Message]
    producer: Producer | None = None
    pointer: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Where the messages stand; with a producer, which sequences were stored and which were known."""

    first: Position | None
    last: Position | None
    stored: tuple[int, ...] = ()
    known: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteReader:
    """Remember how far a named reader has durably read; answers None.

    ``passed``: how many messages the topic of ``generation`` has ever held up to there, where that is known.
    """

    namespace: str
    name: str
    reader: str
    position: bytes
    generation: int | None
    passed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PutSubscription:
    """Create a subscription at the record's position, or change an existing one where it stands; answers None."""

    namespace: str
    name: str
    subscription: str
    record: Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSubscription:
    """How its deliveries went; answers None.

    NotFound when it was deleted meanwhile, or its topic is of another generation; Conflict when it was changed.
    """

    namespace: str
    name: str
    generation: int
    subscription: str
    record: Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSubscription:
    """Answers None."""

    namespace: str
    name: str
    subscription: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Payloads kept for a later publish under the same pointer; answers None."""

    namespace: str
    name: str
    messages: list[Message]
    pointer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """Hide what one transactional publish stored; answers None."""

    namespace: str
    name: str
    pointer: int
    first: Position
    last: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Answers transactions.Started."""

    timeout_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Answers the Transaction, committed or, when another changed the same keys, aborted."""

    pointer: int
    changes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """Answers the Transaction."""

    pointer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalidate:
    """Answers the Transaction."""

    pointer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """Transactions whose time is up become invalid; answers how many did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """Mark rows of aborted transactions and of rollbacks, a bounded number; answers whether there is more to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Writes that no reader can notice: rows that nobody can read any more, or a probe; answers None.

    ``silent``: rows of producers as they were found; those that were written since stay.
    """

    batch: Batch
    silent: Sequence[tuple[bytes, bytes]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    """Forget transactions that finished long ago, a bounded number; answers whether there is more to do."""


SubscriptionCommand = PutSubscription | NoteSubscription | DeleteSubscription
TopicCommand = CreateTopic | UpdateTopic | DeleteTopic | Publish | NoteReader | Store | Rollback | SubscriptionCommand
TransactionCommand = Start | Commit | Abort | Invalidate | Expire | Settle | Prune
Command = TopicCommand | TransactionCommand | Remove
