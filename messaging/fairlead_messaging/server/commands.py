"""Commands: the changes that the single writer can make, each a frozen record typed by its answer.

``Command[T]`` answers a T.  Commands on transactions and subscriptions are in those packages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fairlead_messaging.api.message_id import MessageId, Position
from fairlead_messaging.api.responses import Table
from fairlead_messaging.server.access import UNRESTRICTED, Caller
from fairlead_messaging.server.log.rows import Messages
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.producers import NumberedProducer
from fairlead_messaging.server.store.ordered_kv import Batch

T = TypeVar("T")


class Command(Generic[T]):
    """One change; its answer is a T, which holds once its batch is durable."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCommand(Command[T]):
    """A command on one topic."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic(TopicCommand[TopicGeneration]):
    """Create a topic; a Conflict if it exists."""

    ttl_seconds: int
    properties: Mapping[str, str]
    delivery: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTopic(TopicCommand[TopicGeneration]):
    """Replace all properties of a topic, which keeps its generation."""

    ttl_seconds: int
    properties: Mapping[str, str]
    delivery: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic(TopicCommand[TopicGeneration]):
    """Delete a topic: its messages are unreachable at once, and removed later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAt:
    """The positions of the messages; with a producer, which sequences were stored and which were known.

    Stored messages are at ``first`` and the positions that follow it; known ones are not after ``newest``.
    """

    first: Position | None
    last: Position | None
    stored: tuple[int, ...] = ()
    known: tuple[int, ...] = ()
    generation: int = 0
    newest: Position | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish(TopicCommand[PublishedAt]):
    """Publish messages, under the transaction ``pointer`` if there is one."""

    messages: Messages
    producer: NumberedProducer | None = None
    pointer: int | None = None
    by: Caller = UNRESTRICTED


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReaderPosition(TopicCommand[None]):
    """Remember how far a named reader has durably read.

    ``passed``: how many messages the topic of ``generation`` ever had up to there, if known.
    """

    reader: str
    position: MessageId
    generation: int | None
    passed: int | None = None
    table: Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRows(Command[None]):
    """Writes that no reader can notice: removals of rows that can no longer be read, or a probe.

    ``silent``: rows of idle producers as they were found; rows written since are kept.
    """

    batch: Batch
    silent: Sequence[tuple[bytes, bytes]] = ()
