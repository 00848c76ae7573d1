"""Decides what to do if a topic no longer has the messages to read next, and makes the rows of ``<table>_gaps``.

A gap row records a range of a topic whose messages were never read and never will be, or a range of an edge queue that
the agent reported as lost.

start_position ── expired start ──▶ gap.upto ── short-lived messages among the rest ──▶ position
                  one row: all of it             one row: their number

The service deletes messages only when their time to live has passed, so an expired start means that messages expired
unread. By default they are counted, and reading continues at the oldest message; ``gap`` also adds a row to the gaps
table, and ``fail`` stops. A topic that was deleted and recreated is different: a person did it, and the rest of the old
topic is gone whatever its age. So the default is to stop; ``restart`` reads the new topic from its beginning and adds a
gap row for the old one. A different service at the same address is never read.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fairlead_ingest import errors
from fairlead_ingest.source.offsets import EXPIRED, RECREATED, Gap, Offsets, TopicOffset

# The policy that adds a gap row for an expired range; with "count" it is only counted.
EXPIRED_IS_GAP = "gap"


# Fields of losses that an agent reported; other gaps are stored in commits without them.
REPORTED = ("node", "queue", "from_sequence", "to_sequence", "count")


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRow:
    """``rows`` messages were not read, from ``from_position`` (exclusive) to ``to_position`` (inclusive).

    ``to_position`` is "" if the end is unknown because the generation is gone; ``rows`` is None if unknown. A loss
    reported by an agent has its ``node``, ``queue`` and sequences (both inclusive), at most ``count`` of them; both
    positions are then that of the report, and the generations 0.
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
    """The gaps of a batch that ends at ``end``, ordered by topic.

    ``missing`` is the number of planned messages by topic that had expired when they were read; ``recreated`` of those
    that were lost with their topic.
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
    """The part of ``missing`` that ``known`` does not cover; a gap that begins where a known one does continues it."""
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
    """The rest of ``gap`` after ``known``, which begins at the same position; None if nothing is left."""
    if gap.to_position < known.to_position:
        return None
    if gap.to_position == known.to_position:
        # The batch was tried again, and more messages had expired by then.
        more = 0 if gap.rows is None or known.rows is None else gap.rows - known.rows
        return replace(gap, rows=more) if more > 0 else None
    rows = None if gap.rows is None or known.rows is None else max(0, gap.rows - known.rows)
    return replace(gap, from_position=known.to_position, rows=rows)


# The first of each is the default.
ON_EXPIRED = ("count", "gap", "fail")
ON_RECREATED = ("fail", "restart")


def expired(topic: str, position: str, oldest: str, rows: int | None, policy: str) -> Gap:
    """The gap of ``rows`` messages from ``position`` to ``oldest``, where reading continues.

    Live messages are younger than expired ones, so nothing is read twice. Raises ``Stop`` with the policy ``fail``.
    """
    if policy == "fail":
        raise errors.Stop(
            errors.EXPIRED,
            f"{topic}: the next messages after {position or 'the beginning'} have expired; the remaining ones begin"
            f' after {oldest}. Set on_expired = "gap" or "count" to continue there',
        )
    return Gap(reason=EXPIRED, upto=oldest, rows=rows)


def further(known: Gap | None, gap: Gap) -> Gap:
    """Extend ``known`` by ``gap``, as more messages have expired; the reason ``recreated`` stays."""
    if known is None:
        return gap
    rows = None if known.rows is None or gap.rows is None else known.rows + gap.rows
    return Gap(reason=known.reason, upto=gap.upto, rows=rows)


def recreated(topic: str, offset: TopicOffset, generation: int, policy: str) -> TopicOffset:
    """Where to continue in a new ``generation`` of the topic. Raises ``Stop`` with the policy ``fail``."""
    if offset.generation == 0:
        return TopicOffset.at(generation, offset.position, offset.total)
    if policy == "fail":
        raise errors.Stop(
            errors.RECREATED,
            f"{topic} was deleted and created again (generation {offset.generation} became {generation}); unread"
            ' messages of the old topic are lost. Set on_recreated = "restart" to read the new one from its beginning',
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
    """The service's id. Raises ``Stop`` if it is not the service the positions came from."""
    if known and now and known != now:
        raise errors.Stop(
            errors.OTHER_SERVICE,
            f"the positions belong to messaging service {known}, but {now} answers; another service, or a backup"
            " restored --as-copy, cannot be read from them",
        )
    return now or known
