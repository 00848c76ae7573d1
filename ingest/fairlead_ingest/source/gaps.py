"""The rows of ``<table>_gaps``: one for each stretch of a topic in which messages were never read and never will be.

f ──── expired start ────▶ skip.upto ──── short-lived messages among the rest ────▶ p
     one row: all of it                    one row: so many of it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fairlead_ingest.source.offsets import EXPIRED, RECREATED, Offsets

# The policy under which an expired stretch is worth a gap row; under "count" it is only counted.
EXPIRED_IS_GAP = "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """From ``from_position`` (exclusive) of ``from_generation`` to ``to_position`` (inclusive), ``rows`` were not read.

    ``to_position`` is "" where the end is unknown (the old generation is gone); ``rows`` None where nobody can know.
    """

    topic: str
    reason: str
    from_generation: int
    from_position: str
    to_generation: int
    to_position: str
    rows: int | None


def of(
    end: Offsets,
    *,
    on_expired: str,
    missing: Mapping[str, int] | None = None,
    recreated: Mapping[str, int] | None = None,
) -> list[Gap]:
    """The gaps of a batch that ends at ``end``, in order of topic.

    ``missing``: by topic, what was planned and had expired when it was read; ``recreated``: what was planned and had
    gone with its topic.
    """
    found = []
    for topic, place in sorted(end.topics.items()):
        at, skip = (place.fg, place.f), place.skip
        if skip is not None and skip.reason == RECREATED:
            found.append(_gap(topic, RECREATED, at, (place.g, skip.upto), skip.rows))
            at = (place.g, "")
        if topic in (recreated or {}):
            found.append(_gap(topic, RECREATED, at, (place.g, place.p), (recreated or {})[topic]))
        if on_expired != EXPIRED_IS_GAP:
            continue
        late = (missing or {}).get(topic, 0)
        if skip is not None and skip.reason == EXPIRED:
            unknown = skip.rows is None and place.n is None
            found.append(_gap(topic, EXPIRED, at, (place.g, skip.upto), None if unknown else place.expired))
            at = (place.g, skip.upto)
        else:
            late += place.expired
        if late:
            found.append(_gap(topic, EXPIRED, at, (place.g, place.p), late))
    return found


def _gap(topic: str, reason: str, begin: tuple[int, str], end: tuple[int, str], rows: int | None) -> Gap:
    return Gap(
        topic=topic,
        reason=reason,
        from_generation=begin[0],
        from_position=begin[1],
        to_generation=end[0],
        to_position=end[1],
        rows=rows,
    )


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
    if gap.to_position < known.to_position:
        return None
    if gap.to_position == known.to_position:
        # The batch was tried again, and more of it had expired by then.
        more = 0 if gap.rows is None or known.rows is None else gap.rows - known.rows
        return replace(gap, rows=more) if more > 0 else None
    rows = None if gap.rows is None or known.rows is None else max(0, gap.rows - known.rows)
    return replace(gap, from_position=known.to_position, rows=rows)
