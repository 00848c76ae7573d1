"""The rows of ``<table>_gaps``: one for each range of a topic in which messages were never read and never will be,
and one for each range of an edge queue that the agent itself reported as lost.

start_position ── expired start ──▶ gap.upto ── short-lived messages among the rest ──▶ position
                  one row: all of it             one row: so many of it
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fairlead_ingest.source.offsets import EXPIRED, RECREATED, Offsets

# The policy under which an expired range is worth a gap row; under "count" it is only counted.
EXPIRED_IS_GAP = "gap"


# Fields of what an agent reported; commits of other gaps are stored without them, as before there were any.
REPORTED = ("node", "queue", "from_sequence", "to_sequence", "count")


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRow:
    """From ``from_position`` (exclusive) of ``from_generation`` to ``to_position`` (inclusive), ``rows`` were not read.

    ``to_position`` is "" where the end is unknown (the old generation is gone), ``rows`` None where it is not known.
    What an agent reported names its ``node``, ``queue`` and sequences (both inclusive), at most ``count`` of them; both
    positions are then the report's own, and the generations 0.
    """

    topic: str
    reason: str
    from_generation: int
    from_position: str
    to_generation: int
    to_position: str
    rows: int | None
    node: str | None = None
    queue: str | None = None
    from_sequence: int | None = None
    to_sequence: int | None = None
    count: int | None = None


def of(
    end: Offsets,
    *,
    on_expired: str,
    missing: Mapping[str, int] | None = None,
    recreated: Mapping[str, int] | None = None,
) -> list[GapRow]:
    """The gaps of a batch that ends at ``end``, in order of topic.

    ``missing``: by topic, what was planned and had expired when it was read; ``recreated``: what was planned and had
    gone with its topic.
    """
    found = []
    for topic, offset in sorted(end.topics.items()):
        begin, gap = (offset.start_generation, offset.start_position), offset.gap
        if gap is not None and gap.reason == RECREATED:
            found.append(_gap(topic, RECREATED, begin, (offset.generation, gap.upto), gap.rows))
            begin = (offset.generation, "")
        if topic in (recreated or {}):
            found.append(_gap(topic, RECREATED, begin, (offset.generation, offset.position), (recreated or {})[topic]))
        if on_expired != EXPIRED_IS_GAP:
            continue
        late = (missing or {}).get(topic, 0)
        if gap is not None and gap.reason == EXPIRED:
            unknown = gap.rows is None and offset.total is None
            found.append(
                _gap(topic, EXPIRED, begin, (offset.generation, gap.upto), None if unknown else offset.expired)
            )
            begin = (offset.generation, gap.upto)
        else:
            late += offset.expired
        if late:
            found.append(_gap(topic, EXPIRED, begin, (offset.generation, offset.position), late))
    return found


def _gap(topic: str, reason: str, begin: tuple[int, str], end: tuple[int, str], rows: int | None) -> GapRow:
    return GapRow(
        topic=topic,
        reason=reason,
        from_generation=begin[0],
        from_position=begin[1],
        to_generation=end[0],
        to_position=end[1],
        rows=rows,
    )


def beyond(missing: Iterable[GapRow], known: Iterable[GapRow]) -> list[GapRow]:
    """What of ``missing`` is not in ``known``: a gap that begins where a known one does is only its continuation."""
    held: defaultdict[tuple[str, str, int, str, int], deque[GapRow]] = defaultdict(deque)
    for gap in known:
        held[_begins(gap)].append(gap)
    found = []
    for gap in missing:
        rest: GapRow | None = gap
        while rest is not None:
            same = held.get(_begins(rest))
            if not same:
                found.append(rest)
                break
            rest = _after(rest, same.popleft())
    return found


def _begins(gap: GapRow) -> tuple[str, str, int, str, int]:
    return (gap.topic, gap.reason, gap.from_generation, gap.from_position, gap.to_generation)


def _after(gap: GapRow, known: GapRow) -> GapRow | None:
    """The rest of ``gap`` where ``known``, which begins where it does, ends; None where nothing is left."""
    if gap.to_position < known.to_position:
        return None
    if gap.to_position == known.to_position:
        # The batch was tried again, and more of it had expired by then.
        more = 0 if gap.rows is None or known.rows is None else gap.rows - known.rows
        return replace(gap, rows=more) if more > 0 else None
    rows = None if gap.rows is None or known.rows is None else max(0, gap.rows - known.rows)
    return replace(gap, from_position=known.to_position, rows=rows)
