"""The facts of one table and its side tables."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow.dataset as ds

from fairlead_ingest.io import status
from fairlead_ingest.io.report import file_sizes, row_counts
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.report.facts import UNKNOWN, CommitPoint, LetterCount, ReportGap, TableFacts, TopicLag
from fairlead_ingest.table import freshness
from fairlead_ingest.table.store_path import Place
from fairlead_messaging.client.io.sync_client import BulkClient

COMMITS_MAX = 500
"""Commits of the log that are drawn, the newest; in a store each is a request."""
GAPS_MAX = 200
"""Gaps that are listed, the newest."""


def of(
    name: str,
    table_format: TableFormat,
    path: Place,
    *,
    since: datetime.date | None = None,
    days: int | None = None,
    lags: Sequence[TopicLag] | None = None,
    progress: Callable[[int], object] = lambda _: None,
    clock: Callable[[], float] = time.perf_counter,
) -> TableFacts:
    """``since`` is the first day of ``days``; None: all days. ``progress`` gets the rows of each batch.

    Raises ``Stop`` where there is no table.
    """
    counted = row_counts.count(tables.existing(table_format, path), since, progress)
    return TableFacts(
        name=name,
        table=str(path),
        rows=tables.count(table_format, path),
        counted=counted.rows,
        days=days,
        fresh=status.fresh_within(table_format, path),
        lags=lags,
        points=counted.over_time.points(),
        commits=_commits(table_format, path),
        layout=file_sizes.of(table_format, path, clock),
        by_node=counted.nodes(),
        by_hour=[(_hour(second), count) for second, count in counted.over_time.by_hour()],
        by_priority=counted.priorities(),
        delays=counted.delays(),
        gaps=_gaps(table_format.dataset(tables.beside(path, tables.GAPS))),
        repaired=tables.letter_counts(table_format, path)[1],
        dead_letters=_dead_letters(table_format.dataset(tables.beside(path, tables.DEAD_LETTERS))),
    )


def lags(
    table_format: TableFormat, path: Place, topics: Sequence[str], client: BulkClient, now: datetime.datetime
) -> list[TopicLag]:
    """How far the table is behind each topic now; where the service cannot say, its ``state`` says why."""
    reached = table_format.reached(path)
    found = [status.of_topic(topic, reached.topics.get(topic), client, now) for topic in topics]
    return [
        TopicLag(
            topic=each["topic"],
            state=each["state"],
            messages=each.get("lag_messages"),
            seconds=each.get("lag_seconds"),
        )
        for each in found
    ]


def _commits(table_format: TableFormat, path: Place) -> list[CommitPoint]:
    """Oldest first; those that brought no row have no age."""
    found = [each for entry in table_format.last_entries(path, COMMITS_MAX) if (each := entry.batch()) is not None]
    return [
        CommitPoint(
            seconds=each.timestamp_ms / 1000,
            p50=_age(each.info.counts.ages, 0.5),
            p95=_age(each.info.counts.ages, 0.95),
        )
        for each in reversed(found)
        if each.info.counts.rows
    ]


def _age(ages: list[int], fraction: float) -> float | None:
    """Past the last bound, twice that: a picture has no infinity."""
    found = freshness.quantile(ages, fraction)
    return None if found is None else min(found, 2 * freshness.BUCKETS[-1])


def _hour(second: int) -> str:
    return datetime.datetime.fromtimestamp(second, datetime.UTC).strftime("%Y-%m-%d %H:00")


def _gaps(table: ds.Dataset | None) -> list[ReportGap]:
    """The newest first; none where there is no table, as beside one that was only ever backfilled."""
    if table is None:
        return []
    found = table.to_table().sort_by([("_ingested_at", "descending")]).slice(0, GAPS_MAX).to_pylist()
    return [
        ReportGap(
            reason=gap["reason"],
            topic=gap["_topic"],
            begins=_place(gap, "from"),
            ends=_place(gap, "to"),
            rows=gap["rows"],
            seconds=gap["_ingested_at"].timestamp(),
        )
        for gap in found
    ]


def _place(gap: dict[str, Any], end: str) -> str:
    """In the topic; of what an agent reported, in the queue of its node."""
    if gap.get("queue") is not None:
        return f"{gap['node']} {gap['queue']} {gap[f'{end}_sequence']}"
    return f"{gap[f'{end}_generation']}:{gap[f'{end}_position']}"


def _dead_letters(table: ds.Dataset | None) -> list[LetterCount]:
    """By code and fields; a table that no job of this version has opened has neither."""
    if table is None:
        return []
    held = set(table.schema.names)
    found: dict[tuple[str, tuple[str, ...]], LetterCount] = {}
    for batch in table.to_batches(columns=[name for name in ("error", "code", "fields") if name in held]):
        for row in batch.to_pylist():
            key = row.get("code") or UNKNOWN, tuple(row.get("fields") or ())
            before = found.get(key) or LetterCount(code=key[0], fields=key[1], rows=0, example=row["error"] or "")
            found[key] = replace(before, rows=before.rows + 1)
    return sorted(found.values(), key=lambda each: (-each.rows, each.code, each.fields))
