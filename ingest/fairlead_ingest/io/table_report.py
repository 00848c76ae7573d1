"""Collects the facts of a table and its side tables for the report page: rows, files, commits, gaps, dead letters.

Rows are counted batch by batch, so memory does not depend on their number. Some files of the newest version are opened
to measure how long that takes.
"""

from __future__ import annotations

import datetime
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from fairlead_ingest.io import status
from fairlead_ingest.io.table import files, object_store, store_filesystem, tables
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.report import facts
from fairlead_ingest.report.facts import (
    UNKNOWN,
    CommitPoint,
    FileLayout,
    FileSize,
    LetterCount,
    PriorityDelay,
    ReportGap,
    TableFacts,
    TopicLag,
)
from fairlead_ingest.report.over_time import Delays, OverTime, delay_buckets, quantile
from fairlead_ingest.table import commit_info
from fairlead_ingest.table.store_path import Place, StorePath
from fairlead_messaging.client.io.sync_client import BulkClient

COMMITS_MAX = 500
"""How many of the newest commits are plotted; in a store each is a request."""
GAPS_MAX = 200
"""How many of the newest gaps are listed."""


def table_facts(
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
    """The facts of one table. ``since`` is the first of the last ``days`` days, None for all.

    ``progress`` is called with the number of rows in each batch. Raises ``Stop`` if there is no table.
    """
    counted = count_rows(tables.existing(table_format, path), since, progress)
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
        layout=measure_files(table_format, path, clock),
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
    """The table's current lag behind each topic; if it is unknown, ``state`` says why."""
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
    """The commits that added rows, oldest first."""
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
    """An age quantile, limited to twice the last bound so that it can be plotted."""
    found = commit_info.age_quantile(ages, fraction)
    return None if found is None else min(found, 2 * commit_info.AGE_BUCKETS[-1])


def _hour(second: int) -> str:
    return datetime.datetime.fromtimestamp(second, datetime.UTC).strftime("%Y-%m-%d %H:00")


def _gaps(table: ds.Dataset | None) -> list[ReportGap]:
    """The newest gaps first; empty if there is no gaps table, as for a table that was only backfilled."""
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
    """The position in the topic, or in the node's queue for a loss reported by an agent."""
    if gap.get("queue") is not None:
        return f"{gap['node']} {gap['queue']} {gap[f'{end}_sequence']}"
    return f"{gap[f'{end}_generation']}:{gap[f'{end}_position']}"


def _dead_letters(table: ds.Dataset | None) -> list[LetterCount]:
    """The dead letters by code and fields, which tables of an older version lack."""
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


OPENED_MAX = 20
"""How many of the newest files are opened to measure the time."""
_DATE_CHARS = len("2026-11-20")


def measure_files(table_format: TableFormat, table: Place, clock: Callable[[], float]) -> FileLayout:
    """Measure sizes and the time to open a file; ``clock`` is in seconds. Raises ``OSError``, ``Wait``, ``Stop``."""
    named = table_format.files(table)
    sizes = object_store.sizes(table) if isinstance(table, StorePath) and named else {}
    found, there, took = [], [], []
    for path, topic in named:
        size = sizes.get(path) if isinstance(table, StorePath) else _on_disk(table, path)
        # A file that was vacuumed after the log was read is not part of the newest version any more.
        if size is not None:
            there.append(path)
            found.append(FileSize(topic=topic, date=path.rpartition("/_date=")[2][:_DATE_CHARS], bytes=size))
    for path in there[-OPENED_MAX:]:
        began = clock()
        try:
            _read_footer(table, path)
        except FileNotFoundError:
            continue
        took.append(clock() - began)
    return facts.file_layout(found, open_seconds=statistics.median(took) if took else None, opened=len(took))


def _read_footer(table: Place, path: str) -> None:
    """Read a file's footer, which in a store is one request."""
    if isinstance(table, StorePath):
        store_filesystem.read_footer(table / path)
    else:
        files.open_parquet(table, path).metadata  # noqa: B018 - accessing it reads it


def _on_disk(table: Path, path: str) -> int | None:
    try:
        return os.stat(table / path).st_size
    except OSError:
        return None


BATCH_ROWS = 131_072
QUANTILES = (0.5, 0.95, 0.99)
NODES_MAX = 100_000
"""How many nodes are counted separately; the rest counts as one."""
OTHER_NODES = "other nodes"
PRIORITIES_MAX = 100
"""How many priorities are counted separately; the rest counts as rows without one."""


@dataclass(slots=True, kw_only=True)
class RowCounts:
    """The counts of one table."""

    rows: int = 0
    by_node: Counter[str] = field(default_factory=Counter)
    by_priority: Counter[int | None] = field(default_factory=Counter)
    to_messaging: dict[int | None, Delays] = field(default_factory=dict)
    to_table: dict[int | None, Delays] = field(default_factory=dict)
    over_time: OverTime = field(default_factory=OverTime)

    def nodes(self) -> list[tuple[str, int]]:
        """Rows by node, the busiest first."""
        return sorted(self.by_node.items(), key=lambda pair: (-pair[1], pair[0]))

    def priorities(self) -> list[tuple[str, int]]:
        """Rows by priority, those without one last."""
        found = sorted(self.by_priority.items(), key=lambda pair: (pair[0] is None, pair[0] or 0))
        return [(str(priority), count) for priority, count in found]

    def delays(self) -> list[PriorityDelay]:
        """Delays by priority, for rows that have the time of acceptance."""
        return [
            PriorityDelay(
                priority=priority,
                rows=sum(counts.values()),
                to_messaging=_quantiles(self.to_messaging[priority]),
                to_table=_quantiles(counts),
            )
            for priority, counts in sorted(self.to_table.items(), key=lambda pair: (pair[0] is None, pair[0] or 0))
        ]


def count_rows(table: ds.Dataset, since: datetime.date | None, progress: Callable[[int], object]) -> RowCounts:
    """Count rows of partitions from ``since`` on, None for all. ``progress`` gets the number of rows of each batch."""
    held = set(table.schema.names)
    columns = ["_published_at", "_ingested_at", *(name for name in ("node", "priority", "enqueued_at") if name in held)]
    condition = None if since is None else pc.field("_date") >= pa.scalar(since, pa.date32())
    found = RowCounts()
    for batch in table.to_batches(columns=columns, filter=condition, batch_size=BATCH_ROWS):
        if batch.num_rows:
            _add(found, pa.Table.from_batches([batch]))
            progress(batch.num_rows)
    return found


def _add(found: RowCounts, rows: pa.Table) -> None:
    found.rows += rows.num_rows
    published, taken = _seconds(rows["_published_at"]), _seconds(rows["_ingested_at"])
    found.over_time.add_arrived(_counted(published))
    found.over_time.add_taken(_counted(taken))
    if "node" in rows.column_names:
        for node, count in _counted(rows["node"]):
            known = node in found.by_node or len(found.by_node) < NODES_MAX
            found.by_node[str(node) if known else OTHER_NODES] += count
    if "priority" in rows.column_names:
        for priority, count in _counted(rows["priority"]):
            known = priority in found.by_priority or len(found.by_priority) < PRIORITIES_MAX
            found.by_priority[priority if known else None] += count
    begun = rows["_published_at"]
    if "enqueued_at" in rows.column_names:
        begun = pc.coalesce(rows["enqueued_at"], begun)
        _add_delays(found, rows.filter(pc.is_valid(rows["enqueued_at"])))
    pairs = pa.table({"at": published, "bucket": _delay(rows["_ingested_at"], begun)})
    counted = pairs.group_by(["at", "bucket"]).aggregate([([], "count_all")])
    found.over_time.add_delayed(zip(*(column.to_pylist() for column in _columns(counted)), strict=True))


def _add_delays(found: RowCounts, rows: pa.Table) -> None:
    if not rows.num_rows:
        return
    none = pa.nulls(rows.num_rows, pa.int32())
    priority = rows["priority"] if "priority" in rows.column_names else none
    for later, kept in (("_published_at", found.to_messaging), ("_ingested_at", found.to_table)):
        pairs = pa.table({"at": priority, "bucket": _delay(rows[later], rows["enqueued_at"])})
        counted = pairs.group_by(["at", "bucket"]).aggregate([([], "count_all")])
        for each, bucket, count in zip(*(column.to_pylist() for column in _columns(counted)), strict=True):
            kept.setdefault(each if each in found.by_priority else None, Counter())[bucket] += count


def _columns(counted: pa.Table) -> Sequence[pa.ChunkedArray]:
    return [counted[name] for name in ("at", "bucket", "count_all")]


def _delay(later: pa.ChunkedArray, earlier: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    micros = pc.subtract(pc.cast(later, pa.int64()), pc.cast(earlier, pa.int64()))
    return delay_buckets(micros)


def _seconds(moments: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    return pc.divide(pc.cast(moments, pa.int64()), 1_000_000)


def _counted(column: pa.ChunkedArray | pa.Array) -> list[tuple[Any, int]]:
    return [(each["values"], each["counts"]) for each in column.value_counts().to_pylist()]


def _quantiles(counts: Delays) -> tuple[float, float, float]:
    p50, p95, p99 = (quantile(counts, part) or 0.0 for part in QUANTILES)
    return p50, p95, p99
