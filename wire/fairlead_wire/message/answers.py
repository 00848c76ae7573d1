"""Both ways: what was taken, what was not, and that the peer is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from fairlead_wire.message.header import Count, Header, Id, Name, Place, Position, Seconds


class RefusedItem(msgspec.Struct, frozen=True, kw_only=True):
    """A message inside an acknowledged batch that will never be taken: index in the batch, code, reason."""

    index: Place
    code: str
    reason: str


class Deferred(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A topic that takes nothing now: the message at ``index`` and those behind it for the same topic are not stored,
    and go again.  ``in_doubt``: they may have been stored all the same."""

    index: Place
    code: Name
    reason: str
    retry_after: Seconds | None = None
    in_doubt: bool = False


class TopicPosition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the messages of one topic and epoch of a batch stand; ``index`` is the first of them in the batch.

    With ``first`` they have consecutive positions from there on, in order; else each stands at ``newest`` or before.
    """

    index: Place
    service: Name
    generation: Count
    first: Position = ""
    newest: Position


class Ack(Header, frozen=True, kw_only=True, tag="ack"):
    """The message ``parentID`` is durable here.

    ``cumulative``: so is every earlier one of this session that was not nacked.  ``refused`` (upstream only):
    these messages of the batch were not stored and never will be; the edge dead-letters them.
    """

    parent_id: Id = msgspec.field(name="parentID")
    cumulative: bool = False
    refused: list[RefusedItem] = msgspec.field(default_factory=list)
    held_seconds: Seconds | None = None
    """Upstream only: between the batch's arrival and this answer; the rest of the time it was on the link."""
    positions: list[TopicPosition] = msgspec.field(default_factory=list)
    """Upstream only, where the batch asked for them; of topics that are not named it is not known."""
    deferred: list[Deferred] = msgspec.field(default_factory=list)
    """Upstream only: the other messages are durable or refused."""

    def deferred_by_index(self, topics: Sequence[str]) -> dict[int, Deferred]:
        """Which messages of a batch are deferred; ``topics`` are those of its messages, in order."""
        return {
            index: each
            for each in self.deferred
            for index in range(each.index, len(topics))
            if topics[index] == topics[each.index]
        }


class Nack(Header, frozen=True, kw_only=True, tag="nack"):
    """The message ``parentID`` was not taken.  ``permanent``: the same again would fail again."""

    parent_id: Id = msgspec.field(name="parentID")
    code: Name
    reason: str
    permanent: bool = False
    retry_after: Seconds | None = None
    scope: Literal["stream", "hub"] = "stream"
    """Upstream only.  ``hub``: nothing would be taken now, of whatever stream."""
    held_seconds: Seconds | None = None
    """As in ``Ack``."""
    stored: list[Place] = msgspec.field(default_factory=list)
    """Upstream only: these messages of the batch are durable all the same; the others go again."""
    positions: list[TopicPosition] = msgspec.field(default_factory=list)
    """As in ``Ack``, of the messages in ``stored``."""


class Keepalive(Header, frozen=True, kw_only=True, tag="keepalive"):
    """I am here.  The edge speaks first; the hub answers with the same."""
