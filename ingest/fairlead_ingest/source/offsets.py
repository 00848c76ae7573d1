"""How far each topic has been read, where reading begins and where a batch ends.

The offset Spark keeps in its checkpoint and the table keeps in its log:

    {"svc": "5f0c…", "topics": {"default/telemetry": {"f": "…", "fg": 3, "g": 3, "p": "0000018b…", "r": 912}}, "v": 1}

Stored names are short because each checkpoint and each commit holds them; ``TopicOffset`` and ``Gap`` say which name
stands for what. ``svc`` is the service's identity. Spark compares offsets as text: keys are sorted, no clocks are
inside, and an offset that did not move is returned as it came. A position is the hex text of a message id; ids have one
length, so positions sort as ids do.

Spark's workers import this module and are started often, so it loads no settings model.
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
    """Reading jumped: ``reason`` is ``expired`` or ``recreated``; ``upto`` is where it went on (exclusive)."""

    reason: str
    upto: str = ""
    # Rows known to be missing; None where that cannot be known.
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
    """How far one topic was read when a batch ended, and where that batch began."""

    # Each deletion of a topic begins a new generation; 0: the topic was not there yet.
    generation: int = 0
    # The last message that was read or passed over, included; "" before the first.
    position: str = ""
    start_generation: int = 0
    start_position: str = ""
    # Rows promised for the batch.
    rows: int = 0
    # How many messages the topic had ever held at ``position`` and at ``start_position``, where the service says so.
    total: int | None = None
    start_total: int | None = None
    # Why reading did not simply go on from ``start_position``.
    gap: Gap | None = None

    @classmethod
    def at(cls, generation: int, position: str, total: int | None = None) -> TopicOffset:
        """A place nothing has been read from yet."""
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
        """The place that an explicit ``startingOffsets`` names: ``{"g", "p"}`` and perhaps ``"n"``."""
        total = plain.get("n")
        return cls.at(int(plain["g"]), str(plain["p"]), None if total is None else int(total))

    def to_starting(self) -> dict[str, Any]:
        """This place as an explicit ``startingOffsets``."""
        return {"g": self.generation, "p": self.position} | ({} if self.total is None else {"n": self.total})

    def at_rest(self) -> TopicOffset:
        """The same place, as the entry of a batch in which this topic gave nothing."""
        return TopicOffset.at(self.generation, self.position, self.total)

    @property
    def read_from(self) -> str:
        """Where reading of this batch begins, exclusive. Not before a gap's end: what had expired there is counted,
        and may be alive again when the batch is read (a longer time to live, a clock set back)."""
        return self.start_position if self.gap is None else self.gap.upto

    @property
    def known_total(self) -> int | None:
        """As ``total``, which is 0 before the first message; None where it was not counted."""
        return self.total if self.position else 0

    @property
    def expired(self) -> int:
        """Messages of this range that were gone when the batch was planned."""
        if self.total is None or self.start_total is None:
            return (self.gap.rows or 0) if self.gap is not None and self.gap.reason == EXPIRED else 0
        return max(0, self.total - self.start_total - self.rows)

    def to_dict(self) -> dict[str, Any]:
        """As it is stored: short names, sorted; no totals and no gap where there are none."""
        plain = msgspec.to_builtins(self)
        if self.total is None or self.start_total is None:
            del plain["n"], plain["fn"]
        if self.gap is None:
            del plain["skip"]
        else:
            plain["skip"] = dict(sorted(plain["skip"].items()))
        return dict(sorted(plain.items()))


class Offsets(msgspec.Struct, frozen=True, kw_only=True):
    """The places of all topics of one query. ``service`` is "" until the service has said who it is."""

    service: str = ""
    topics: dict[str, TopicOffset] = {}

    def to_dict(self) -> dict[str, Any]:
        """What Spark stores: plain values, keys sorted, the same text for the same places."""
        topics = {name: self.topics[name].to_dict() for name in sorted(self.topics)}
        return {"svc": self.service, "topics": topics, "v": VERSION}

    def since(self, before: Offsets) -> Offsets:
        """The same places, as the end of a batch that began at ``before``: at rest when it is where that ended too."""
        if self != before:
            return self
        return Offsets(service=self.service, topics={name: offset.at_rest() for name, offset in self.topics.items()})

    @property
    def rows(self) -> int:
        """Rows promised for the batch that ends here."""
        return sum(offset.rows for offset in self.topics.values())


def parse_offsets(value: Mapping[str, Any] | bytes | str) -> Offsets:
    """The offset in Spark's dictionary or its JSON text. Raises ``Stop`` where it is none of ours."""
    try:
        plain: Any = msgspec.json.decode(value) if isinstance(value, (bytes, str)) else dict(value)
        if plain.get("v") != VERSION:
            raise errors.Stop(errors.BAD_CHECKPOINT, f"offset version {plain.get('v')!r}; ours is {VERSION}")
        topics = msgspec.convert(plain["topics"], dict[str, TopicOffset])
        return Offsets(service=str(plain["svc"]), topics=topics)
    except (msgspec.DecodeError, KeyError, AttributeError, TypeError, ValueError, RecursionError) as error:
        raise errors.Stop(errors.BAD_CHECKPOINT, f"not an offset of this source: {error}") from error


def share_rows(limit_rows: int | None, topics: int) -> list[int | None]:
    """Split a limit over ``topics`` so that each may read something (1 at least) and none more than its share."""
    if limit_rows is None:
        return [None] * topics
    each, rest = divmod(max(limit_rows, topics), topics)
    return [each + (1 if index < rest else 0) for index in range(topics)]


def place_after_batch(offset: TopicOffset, plan: Plan, target: str | None) -> TopicOffset:
    """The place after the batch that ``plan`` allows; ``offset`` itself where there is nothing to take or to count.

    Messages with a short time to live may leave a topic unread. The totals of both ends say how many: where nothing
    is left to read, what has gone is a batch of its own, of no rows.
    """
    before, total = offset.known_total, plan.passed
    # What has expired is behind us even if nothing follows it yet; else it would be met, and counted, again.
    reached = max(plan.upto or "", offset.position, offset.gap.upto if offset.gap else "")
    if not plan.rows and total is not None and (offset.gap is not None or (before is not None and total > before)):
        stable = plan.stable or ""
        reached = max(reached, stable if target is None else min(stable, target))
    if not plan.rows and reached == offset.position and offset.gap is None:
        return offset
    end = begin = None
    if total is not None:
        # Counted from below: a total in the middle of a topic may be too low, and then the next one makes up for it.
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
    """As the source takes it: a name, or milliseconds since 1970.  A time without a zone is UTC.

    Raises ``ValueError``.
    """
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
