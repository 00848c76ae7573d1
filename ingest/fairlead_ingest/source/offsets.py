"""Offsets: the position of each topic at the beginning and end of a batch.

The offset as Spark stores it in its checkpoint, and the table in its log:

    {"svc": "5f0c…", "topics": {"default/telemetry": {"f": "…", "fg": 3, "g": 3, "p": "0000018b…", "r": 912}}, "v": 1}

Stored names are short because every checkpoint and commit contains them; ``TopicOffset`` and ``Gap`` define them.
``svc`` is the service's id. Spark compares offsets as text, so keys are sorted, there are no times, and an offset that
did not move is returned unchanged. A position is a message id in hex; ids have a fixed length, so positions sort like
ids.

Spark's workers import this module and are started often, so it must not import the settings.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fairlead_ingest import errors
from fairlead_wire.validation import mistakes

if TYPE_CHECKING:
    from fairlead_messaging.api.responses import Plan

VERSION = 1
EXPIRED, RECREATED = "expired", "recreated"


class Gap(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Messages were skipped; ``reason`` is ``expired`` or ``recreated``, and reading continues after ``upto``."""

    reason: str
    upto: str = ""
    # The number of missing messages; None if unknown.
    rows: int | None = None


class TopicOffset(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={
        "generation": "g",
        "position": "p",
        "start_generation": "fg",
        "start_position": "f",
        "rows": "r",
        "total": "n",
        "start_total": "fn",
        "gap": "skip",
    },
):
    """The position of one topic at the end of a batch, and where that batch began."""

    # A topic that is created again has a new generation; 0 if the topic did not exist yet.
    generation: int = 0
    # The last message that was read or skipped; "" before the first.
    position: str = ""
    start_generation: int = 0
    start_position: str = ""
    # The planned number of rows.
    rows: int = 0
    # How many messages the topic had in its whole life up to ``position`` and ``start_position``, if known.
    total: int | None = None
    start_total: int | None = None
    # Set if reading could not continue directly from ``start_position``.
    gap: Gap | None = None

    @classmethod
    def at(cls, generation: int, position: str, total: int | None = None) -> TopicOffset:
        """An offset that begins and ends at the same position."""
        return cls(
            generation=generation,
            position=position,
            start_generation=generation,
            start_position=position,
            total=total,
            start_total=total,
        )

    @classmethod
    def from_starting(cls, plain: Mapping[str, Any]) -> TopicOffset:
        """The offset of an explicit ``startingOffsets``: ``{"g", "p"}`` and optionally ``"n"``."""
        total = plain.get("n")
        return cls.at(int(plain["g"]), str(plain["p"]), None if total is None else int(total))

    def to_starting(self) -> dict[str, Any]:
        """This position as an explicit ``startingOffsets``."""
        return {"g": self.generation, "p": self.position} | ({} if self.total is None else {"n": self.total})

    def at_rest(self) -> TopicOffset:
        """The same position as the entry of a batch that reads nothing from this topic."""
        return TopicOffset.at(self.generation, self.position, self.total)

    @property
    def read_from(self) -> str:
        """Where reading of this batch begins, exclusive. It begins after a gap, because messages counted as expired
        may be visible again when the batch is read (a longer time to live, a clock set back)."""
        return self.start_position if self.gap is None else self.gap.upto

    @property
    def known_total(self) -> int | None:
        """``total``, or 0 before the first message; None if unknown."""
        return self.total if self.position else 0

    @property
    def expired(self) -> int:
        """The number of messages in this range that had expired when the batch was planned."""
        if self.total is None or self.start_total is None:
            return (self.gap.rows or 0) if self.gap is not None and self.gap.reason == EXPIRED else 0
        return max(0, self.total - self.start_total - self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The stored form: short names, sorted, without missing totals and gap."""
        plain = msgspec.to_builtins(self)
        if self.total is None or self.start_total is None:
            del plain["n"], plain["fn"]
        if self.gap is None:
            del plain["skip"]
        else:
            plain["skip"] = dict(sorted(plain["skip"].items()))
        return dict(sorted(plain.items()))


class Offsets(msgspec.Struct, frozen=True, kw_only=True):
    """The positions of all topics of a query. ``service`` is "" until the service's id is known."""

    service: str = ""
    topics: dict[str, TopicOffset] = {}

    def to_dict(self) -> dict[str, Any]:
        """The stored form: plain values with sorted keys, so that equal offsets have equal texts."""
        topics = {name: self.topics[name].to_dict() for name in sorted(self.topics)}
        return {"svc": self.service, "topics": topics, "v": VERSION}

    def since(self, before: Offsets) -> Offsets:
        """These offsets as the end of a batch that began at ``before``; at rest if they are equal."""
        if self != before:
            return self
        return Offsets(service=self.service, topics={name: offset.at_rest() for name, offset in self.topics.items()})

    @property
    def rows(self) -> int:
        """The planned number of rows of the batch that ends here."""
        return sum(offset.rows for offset in self.topics.values())


def parse_offsets(value: Mapping[str, Any] | bytes | str) -> Offsets:
    """Parse the offset in Spark's dictionary or its JSON text. Raises ``Stop`` if it is not one of ours."""
    try:
        plain: Any = msgspec.json.decode(value) if isinstance(value, (bytes, str)) else dict(value)
        if plain.get("v") != VERSION:
            raise errors.Stop(errors.BAD_CHECKPOINT, f"offset version {plain.get('v')!r}; ours is {VERSION}")
        topics = msgspec.convert(plain["topics"], dict[str, TopicOffset])
        return Offsets(service=str(plain["svc"]), topics=topics)
    except (msgspec.DecodeError, KeyError, AttributeError, TypeError, ValueError, RecursionError) as error:
        raise errors.Stop(errors.BAD_CHECKPOINT, f"not an offset of this source: {error}") from error


def share_rows(limit_rows: int | None, topics: int) -> list[int | None]:
    """Split a limit equally over ``topics``, at least 1 for each."""
    if limit_rows is None:
        return [None] * topics
    each, rest = divmod(max(limit_rows, topics), topics)
    return [each + (1 if index < rest else 0) for index in range(topics)]


def place_after_batch(offset: TopicOffset, plan: Plan, target: str | None) -> TopicOffset:
    """The offset after the batch of ``plan``; ``offset`` itself if there is nothing to read or to count.

    Messages with a short time to live may expire unread; the totals at both ends say how many. If nothing is left to
    read, they make a batch without rows.
    """
    before, total = offset.known_total, plan.passed
    # Move past expired messages even if nothing follows yet, or they would be counted again.
    reached = max(plan.upto or "", offset.position, offset.gap.upto if offset.gap else "")
    if not plan.rows and total is not None and (offset.gap is not None or (before is not None and total > before)):
        stable = plan.stable or ""
        reached = max(reached, stable if target is None else min(stable, target))
    if not plan.rows and reached == offset.position and offset.gap is None:
        return offset
    end = begin = None
    if total is not None:
        # A total in the middle of a topic may be too low; the next one corrects it.
        end = total if before is None else max(total, before + plan.rows)
        begin = max(0, end - plan.rows) if before is None else before
    return TopicOffset(
        generation=plan.generation,
        position=reached,
        start_generation=offset.start_generation or plan.generation,
        start_position=offset.start_position,
        rows=plan.rows,
        total=end,
        start_total=begin,
        gap=offset.gap,
    )


STARTING_NAMES: Final = ("earliest", "latest", "table")


def parse_starting_position(position: Any) -> str | int:
    """Parse a name, an ISO time (UTC without a zone) or milliseconds since 1970. Raises ``ValueError``."""
    if isinstance(position, str) and position in STARTING_NAMES:
        return position
    if isinstance(position, int) and not isinstance(position, bool):
        if position < 0:
            raise ValueError(f"must be milliseconds since 1970, is {position}")
        return position
    moment = position
    if isinstance(position, str):
        try:
            moment = datetime.datetime.fromisoformat(position)
        except ValueError:
            raise ValueError(
                f"must be {', '.join(STARTING_NAMES)} or an ISO time, is {mistakes.shown(position)}"
            ) from None
    if not isinstance(moment, datetime.datetime):
        raise ValueError(f"must be a name, an ISO time or milliseconds, is {mistakes.shown(position)}")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(moment.timestamp() * 1000)
