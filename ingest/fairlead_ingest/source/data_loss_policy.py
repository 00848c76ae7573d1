"""What to do where a topic no longer holds what should be read next.

The service deletes rows for one reason only: their time to live has passed. So a start that has expired means unread
messages died of their own age. By default that is counted and reading goes on at the oldest row; ``gap`` also leaves a
row in the table's gaps, ``fail`` stops. A topic deleted and made again is another matter: a person did it, and the
rest of the old one is gone whatever its age, so the default is to stop; ``restart`` reads the new one from its
beginning and leaves a gap row for the old. A different service behind the same address is never read from.
"""

from __future__ import annotations

from fairlead_ingest import errors
from fairlead_ingest.source.offsets import EXPIRED, RECREATED, Gap, TopicOffset

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
