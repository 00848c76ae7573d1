"""How far each topic has been read: the offset Spark keeps in its checkpoint and the table keeps in its log.

    {"svc": "5f0c…", "topics": {"default/telemetry": {"f": "…", "fg": 3, "g": 3, "p": "0000018b…", "r": 912}}, "v": 1}

``svc`` service identity; per topic: ``g`` generation (0: the topic was not there yet), ``p`` position reached, the last
decided id included, "" before the first; ``f``, ``fg`` where this batch began; ``r`` rows promised for this batch;
``n``, ``fn`` how many messages the topic had ever held at ``p`` and at ``f``, where the service says so; ``skip`` why
reading did not simply go on from ``f`` (only then). Spark compares offsets as text: keys are sorted, no clocks are
inside, and an offset that did not move is returned as it came.
Position text is hex of ids of one length, so it sorts as the ids do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fairlead_ingest import errors

VERSION = 1
EXPIRED, RECREATED = "expired", "recreated"


class Skip(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Reading jumped: ``reason`` is ``expired`` or ``recreated``; ``upto`` is where it went on (exclusive)."""

    reason: str
    upto: str = ""
    # Rows known to be missing; None where nobody can know.
    rows: int | None = None


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """One topic's place after a batch, and where that batch began."""

    g: int = 0
    p: str = ""
    fg: int = 0
    f: str = ""
    r: int = 0
    n: int | None = None
    fn: int | None = None
    skip: Skip | None = None

    @classmethod
    def at(cls, generation: int, position: str, passed: int | None = None) -> Position:
        """A place nothing has been read from yet."""
        return cls(g=generation, p=position, fg=generation, f=position, n=passed, fn=passed)

    def rested(self) -> Position:
        """The same place, as the entry of a batch in which this topic gave nothing."""
        return Position.at(self.g, self.p, self.n)

    @property
    def begin(self) -> str:
        """Where reading of this batch begins, exclusive. Not before a jump's end: what had expired there is counted,
        and may be alive again when the batch is read (a longer time to live, a clock set back)."""
        return self.f if self.skip is None else self.skip.upto

    @property
    def passed(self) -> int | None:
        """Messages the topic had ever held at ``p``; None where nobody has counted. Before the first there is none."""
        return self.n if self.p else 0

    @property
    def expired(self) -> int:
        """Messages of this stretch that were gone when the batch was planned."""
        if self.n is None or self.fn is None:
            return (self.skip.rows or 0) if self.skip is not None and self.skip.reason == EXPIRED else 0
        return max(0, self.n - self.fn - self.r)


class Offsets(msgspec.Struct, frozen=True, kw_only=True):
    """The places of all topics of one query. ``service`` is "" until the service has said who it is."""

    service: str = ""
    topics: dict[str, Position] = {}

    def to_dict(self) -> dict[str, Any]:
        """What Spark stores: plain values, keys sorted, the same text for the same places."""
        topics = {name: _position_dict(self.topics[name]) for name in sorted(self.topics)}
        return {"svc": self.service, "topics": topics, "v": VERSION}

    def since(self, before: Offsets) -> Offsets:
        """The same places, as the end of a batch that began at ``before``: at rest when it is where that ended too."""
        if self != before:
            return self
        return Offsets(service=self.service, topics={name: at.rested() for name, at in self.topics.items()})

    @property
    def rows(self) -> int:
        """Rows promised for the batch that ends here."""
        return sum(position.r for position in self.topics.values())


def parse(value: Mapping[str, Any] | bytes | str) -> Offsets:
    """The offset in Spark's dictionary or its JSON text. Raises ``Stop`` where it is none of ours."""
    try:
        plain: Any = msgspec.json.decode(value) if isinstance(value, (bytes, str)) else dict(value)
        if plain.get("v") != VERSION:
            raise errors.Stop(errors.BAD_CHECKPOINT, f"offset version {plain.get('v')!r}; ours is {VERSION}")
        topics = msgspec.convert(plain["topics"], dict[str, Position])
        return Offsets(service=str(plain["svc"]), topics=topics)
    except (msgspec.DecodeError, KeyError, AttributeError, TypeError, ValueError) as error:
        raise errors.Stop(errors.BAD_CHECKPOINT, f"not an offset of this source: {error}") from error


def shares(limit_rows: int | None, topics: int) -> list[int | None]:
    """Split a limit over ``topics`` so that each may read something (1 at least) and none more than its share."""
    if limit_rows is None:
        return [None] * topics
    each, rest = divmod(max(limit_rows, topics), topics)
    return [each + (1 if index < rest else 0) for index in range(topics)]


def _position_dict(position: Position) -> dict[str, Any]:
    plain: dict[str, Any] = {"f": position.f, "fg": position.fg, "g": position.g, "p": position.p, "r": position.r}
    if position.n is not None and position.fn is not None:
        plain |= {"n": position.n, "fn": position.fn}
    if position.skip is not None:
        plain["skip"] = dict(sorted(msgspec.to_builtins(position.skip).items()))
    return dict(sorted(plain.items()))
