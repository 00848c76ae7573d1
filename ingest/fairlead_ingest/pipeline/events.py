"""What ingest tells of its tables on the system topic, made from what the table's own log says of each commit.

    commit entry ─of_commit─▶ table.committed, and table.gap where something was never read
    Stop ────────of_stop────▶ job.stopped

A commit's events are numbered by its batch, so telling them again (after a kill, a lost answer) stores nothing twice.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairlead_ingest.source import offsets
from fairlead_wire.event import Event, short

EVENTS_PER_BATCH = 2
"""Numbers a batch takes: its commit, and its gaps."""
GAPS_MAX = 32
"""Gaps of one batch named in its event; the table of gaps has them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """An event and its number under its producer."""

    number: int
    event: Event


def of_commit(entry: Mapping[str, Any], *, pipeline: str, table: str) -> list[Numbered]:
    """The events of one commit: ``entry`` is what was left in its metadata, with ``timestamp`` in milliseconds."""
    batch, time = int(entry["batch"]), _text(entry["timestamp"] / 1000)
    about = {"pipeline": pipeline, "table": table, "batch": batch, "version": entry.get("version")}
    reached = offsets.parse(entry["reached"])
    told = [
        Numbered(
            number=batch * EVENTS_PER_BATCH,
            event=Event(
                type="table.committed",
                time=time,
                subject=table,
                data={
                    **about,
                    "rows": entry.get("rows", 0),
                    "bytes": entry.get("bytes", 0),
                    "deadLetters": entry.get("dead_letters", 0),
                    "expiredUnread": entry.get("expired_unread", 0),
                    "positions": {
                        topic: {"generation": offset.generation, "position": offset.position}
                        for topic, offset in reached.topics.items()
                    },
                },
            ),
        )
    ]
    gaps = entry.get("gaps") or []
    if gaps:
        data = {**about, "gaps": [_gap(gap) for gap in gaps[:GAPS_MAX]], "gapsTotal": len(gaps)}
        event = Event(type="table.gap", time=time, subject=table, data=data)
        told.append(Numbered(number=batch * EVENTS_PER_BATCH + 1, event=event))
    return told


def of_stop(code: str, sentence: str, pipelines: list[str], *, now: float) -> Event:
    """The job ended and somebody has to look; ``now`` is in seconds since 1970."""
    data = {"reason": code, "message": short(sentence), "pipelines": pipelines}
    return Event(type="job.stopped", time=_text(now), subject=pipelines[0] if pipelines else "", data=data)


def _gap(gap: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "topic": gap["topic"],
        "reason": gap["reason"],
        "fromGeneration": gap["from_generation"],
        "fromPosition": gap["from_position"],
        "toGeneration": gap["to_generation"],
        "toPosition": gap["to_position"],
        "rows": gap["rows"],
    }


def _text(seconds: float) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
