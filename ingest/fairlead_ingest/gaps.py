"""The rows of ``<table>_gaps``: one for each stretch of a topic that was never read and never will be."""

from __future__ import annotations

from dataclasses import dataclass

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
