"""The rows of ``<table>_gaps``: one for each stretch of a topic that was never read and never will be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fairlead_ingest.offsets import Offsets

# The policy under which an expired stretch is worth a gap row; under "count" it is only counted.
EXPIRED_IS_GAP = "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """From ``from_position`` (exclusive) of ``from_generation`` to ``to_position`` (inclusive), nothing was read.

    ``to_position`` is "" where the end is unknown (the old generation is gone); ``rows`` None where nobody can know.
    """

    topic: str
    reason: str
    from_generation: int
    from_position: str
    to_generation: int
    to_position: str
    rows: int | None


def of(end: Offsets, *, on_expired: str) -> list[Gap]:
    """The gaps a batch that ends at ``end`` jumped over, in order of topic."""
    found = []
    for topic, position in sorted(end.topics.items()):
        skip = position.skip
        if skip is None or (skip.reason == "expired" and on_expired != EXPIRED_IS_GAP):
            continue
        found.append(
            Gap(
                topic=topic,
                reason=skip.reason,
                from_generation=position.fg,
                from_position=position.f,
                to_generation=position.g,
                to_position=skip.upto,
                rows=skip.rows,
            )
        )
    return found


def beyond(missing: Iterable[Gap], known: Iterable[Gap]) -> list[Gap]:
    """What of ``missing`` is not in ``known``: a gap that begins where a known one does is only its continuation."""
    held = list(known)
    found = []
    for gap in missing:
        rest: Gap | None = gap
        while rest is not None:
            same = next((each for each in held if _begins(each) == _begins(rest)), None)
            if same is None:
                found.append(rest)
                break
            held.remove(same)
            rest = _after(rest, same)
    return found


def _begins(gap: Gap) -> tuple[str, str, int, str, int]:
    return (gap.topic, gap.reason, gap.from_generation, gap.from_position, gap.to_generation)


def _after(gap: Gap, known: Gap) -> Gap | None:
    """The rest of ``gap`` where ``known``, which begins where it does, ends; None where nothing is left."""
    if gap.to_position <= known.to_position:
        return None
    rows = None if gap.rows is None or known.rows is None else max(0, gap.rows - known.rows)
    return replace(gap, from_position=known.to_position, rows=rows)
