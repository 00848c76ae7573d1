"""The events about tables on the system topic, derived from the table's own log; also when to log progress.

    commit ─of_commit─▶ table.committed, and table.gap if messages were never read
    Stop ───of_stop───▶ job.stopped

A commit's events are numbered by its batch, so publishing them again (after a kill or a lost answer) stores them once.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from fairlead_ingest.source.gaps import GapRow
from fairlead_ingest.table.commit_info import Committed
from fairlead_wire.event import Event, short

EVENTS_PER_BATCH = 2
"""How many numbers a batch uses: one for its commit, one for its gaps."""
GAPS_MAX = 32
"""How many gaps of a batch its event lists; the gaps table has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """An event and its number under its producer."""

    number: int
    event: Event


def of_commit(committed: Committed, *, pipeline: str, table: str) -> list[Numbered]:
    """The events of one commit."""
    batch, counts, time = committed.info.batch, committed.info.counts, _text(committed.timestamp_ms / 1000)
    about = {"pipeline": pipeline, "table": table, "batch": batch, "version": committed.version}
    found = [
        Numbered(
            number=batch * EVENTS_PER_BATCH,
            event=Event(
                type="table.committed",
                time=time,
                subject=table,
                data={
                    **about,
                    "rows": counts.rows,
                    "bytes": counts.bytes,
                    "deadLetters": counts.dead_letters,
                    "expiredUnread": counts.expired_unread,
                    "positions": {
                        topic: {"generation": offset.generation, "position": offset.position}
                        for topic, offset in committed.info.reached.topics.items()
                    },
                },
            ),
        )
    ]
    gaps = counts.gaps
    if gaps:
        data = {**about, "gaps": [_gap(gap) for gap in gaps[:GAPS_MAX]], "gapsTotal": len(gaps)}
        event = Event(type="table.gap", time=time, subject=table, data=data)
        found.append(Numbered(number=batch * EVENTS_PER_BATCH + 1, event=event))
    return found


def of_stop(code: str, sentence: str, pipelines: list[str], *, now: float) -> Event:
    """The event for pipelines that stopped and need a person; ``now`` is in seconds since 1970."""
    data = {"reason": code, "message": short(sentence), "pipelines": pipelines}
    return Event(type="job.stopped", time=_text(now), subject=pipelines[0] if pipelines else "", data=data)


def _gap(gap: GapRow) -> dict[str, Any]:
    reported = {"node": gap.node, "queue": gap.queue, "fromSequence": gap.from_sequence, "toSequence": gap.to_sequence}
    return {
        "topic": gap.topic,
        "reason": gap.reason,
        "fromGeneration": gap.from_generation,
        "fromPosition": gap.from_position,
        "toGeneration": gap.to_generation,
        "toPosition": gap.to_position,
        "rows": gap.rows,
        **(reported if gap.queue is not None else {}),
    }


def _text(seconds: float) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


LINE_SECONDS = 10.0


class ProgressLog:
    """Decides when to log the progress of one pipeline's batch."""

    def __init__(self, every_seconds: float = LINE_SECONDS) -> None:
        self._every_seconds = every_seconds
        self._batch: int | None = None
        self._since = self._logged = 0.0

    def due(self, now: float, *, batch: int, is_running: bool) -> float | None:
        """Seconds the batch has been running, if it is time to log that; otherwise None."""
        if not is_running or batch != self._batch:
            self._batch = batch if is_running else None
            self._since = self._logged = now
            return None
        if now - self._logged < self._every_seconds:
            return None
        self._logged = now
        return now - self._since
