"""What to do where a topic no longer holds what should be read next, and the rows of ``<table>_gaps`` that record it.

A gap row stands for a range of a topic in which messages were never read and never will be, or for a range of an edge
queue that the agent itself reported as lost.

start_position ── expired start ──▶ gap.upto ── short-lived messages among the rest ──▶ position
                  one row: all of it             one row: so many of it

The service deletes rows for one reason only: their time to live has passed. So a start that has expired means unread
messages outlived their time to live. By default that is counted and reading goes on at the oldest row; ``gap`` also
leaves a row in the table of gaps, ``fail`` stops. A topic that was deleted and recreated is another matter:
a person did it, and the rest of the old one is gone whatever its age, so the default is to stop; ``restart`` reads the
new one from its beginning and leaves a gap row for the old one. A different service behind the same address is never
read from.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fairlead_ingest import errors
from fairlead_ingest.source.offsets import EXPIRED, RECREATED, Gap, Offsets, TopicOffset

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


# The first of each is the default.
ON_EXPIRED = ("count", "gap", "fail")
ON_RECREATED = ("fail", "restart")


def expired(topic: str, position: str, oldest: str, rows: int | None, policy: str) -> Gap:
    """Note that ``rows`` after ``position`` are gone up to ``oldest``; reading goes on there.

    What is alive now is younger than a start that has expired, so nothing is read twice. Raises ``Stop`` under
    the policy ``fail``.
    """
    if policy == "fail":
        raise errors.Stop(
            errors.EXPIRED,
            f"{topic}: wanted to read on after {position or 'the beginning'}, but what followed has expired; what is"
            f' left begins after {oldest}. Set on_expired = "gap" or "count" to go on there',
        )
    return Gap(reason=EXPIRED, upto=oldest, rows=rows)


def further(known: Gap | None, gap: Gap) -> Gap:
    """``gap``, after ``known`` had been found: more has expired since. Of a topic made again the reason stays."""
    if known is None:
        return gap
    rows = None if known.rows is None or gap.rows is None else known.rows + gap.rows
    return Gap(reason=known.reason, upto=gap.upto, rows=rows)


def recreated(topic: str, offset: TopicOffset, generation: int, policy: str) -> TopicOffset:
    """Where to go on when the topic is now of another ``generation``. Raises ``Stop`` under ``fail``."""
    if offset.generation == 0:
        return TopicOffset.at(generation, offset.position, offset.total)
    if policy == "fail":
        raise errors.Stop(
            errors.RECREATED,
            f"{topic} was deleted and made again (generation {offset.generation} became {generation}); what was unread"
            ' of the old one is gone. Set on_recreated = "restart" to read the new one from its beginning',
        )
    return TopicOffset(
        generation=generation,
        position="",
        start_generation=offset.generation,
        start_position=offset.position,
        start_total=0,
        gap=Gap(reason=RECREATED),
    )


def same_service(known: str, now: str) -> str:
    """The service's identity. Raises ``Stop`` when another one answers than the one the positions came from."""
    if known and now and known != now:
        raise errors.Stop(
            errors.OTHER_SERVICE,
            f"the positions belong to messaging service {known}, but {now} answers; another service, or a"
            " backup restored --as-copy, cannot be read on from them",
        )
    return now or known
