"""How far tables have read the topics of a node."""

from __future__ import annotations

from typing import Annotated

import msgspec

from fairlead_wire.message.header import REASON_CHARS_MAX, Count, Header, Id, Name, Position

TABLE_TOPICS_MAX = 64
"""Topics of one ``ask`` frame."""
TABLE_READERS_MAX = 32
"""Tables of one topic that an answer names."""


class AskTables(Header, frozen=True, kw_only=True, tag="ask"):
    """Edge: how far have tables read these topics?  One at a time; a nack says why not now."""

    id: Id
    topics: Annotated[list[Name], msgspec.Meta(max_length=TABLE_TOPICS_MAX)]


class Tables(Header, frozen=True, kw_only=True, tag="tables"):
    """Hub: the answer (content: JSON array of ``TopicTables``); a topic that is not named is none of the node's."""

    parent_id: Id = msgspec.field(name="parentID")


class TableReached(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a reader that fills a table has read, durably: all after ``start`` up to ``position`` is taken.

    ``rowless``: of all it took, how many messages got no row (dead letters, filtered, expired before they were read).
    """

    reader: Name
    table: Annotated[str, msgspec.Meta(max_length=REASON_CHARS_MAX)]
    start: Position
    position: Position
    batch: Count | None = None
    version: Count | None = None
    rowless: Count | None = None


class TopicTables(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Of one topic: which one it is (``service``, ``generation``), and its tables."""

    topic: Name
    service: Name
    generation: Count
    readers: Annotated[list[TableReached], msgspec.Meta(max_length=TABLE_READERS_MAX)] = []
