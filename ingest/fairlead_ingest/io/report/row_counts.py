"""Rows counted batch by batch: memory depends on what is counted, not on how many rows there are."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from fairlead_ingest.report.facts import PriorityDelay
from fairlead_ingest.report.over_time import Delays, OverTime, delay_buckets, quantile

BATCH_ROWS = 131_072
QUANTILES = (0.5, 0.95, 0.99)
NODES_MAX = 100_000
"""Nodes that are counted apart; of more the rest counts as one."""
OTHER_NODES = "other nodes"
PRIORITIES_MAX = 100
"""Priorities that are counted apart; of more the rest counts as rows without one."""


@dataclass(slots=True, kw_only=True)
class RowCounts:
    """What was counted of one table."""

    rows: int = 0
    by_node: Counter[str] = field(default_factory=Counter)
    by_priority: Counter[int | None] = field(default_factory=Counter)
    to_messaging: dict[int | None, Delays] = field(default_factory=dict)
    to_table: dict[int | None, Delays] = field(default_factory=dict)
    over_time: OverTime = field(default_factory=OverTime)

    def nodes(self) -> list[tuple[str, int]]:
        """The busiest first."""
        return sorted(self.by_node.items(), key=lambda pair: (-pair[1], pair[0]))

    def priorities(self) -> list[tuple[str, int]]:
        """By priority, rows without one last."""
        found = sorted(self.by_priority.items(), key=lambda pair: (pair[0] is None, pair[0] or 0))
        return [(str(priority), count) for priority, count in found]

    def delays(self) -> list[PriorityDelay]:
        """Of each priority that has rows with a time of acceptance."""
        return [
            PriorityDelay(
                priority=priority,
                rows=sum(counts.values()),
                to_messaging=_quantiles(self.to_messaging[priority]),
                to_table=_quantiles(counts),
            )
            for priority, counts in sorted(self.to_table.items(), key=lambda pair: (pair[0] is None, pair[0] or 0))
        ]


def count(table: ds.Dataset, since: datetime.date | None, progress: Callable[[int], object]) -> RowCounts:
    """Rows of the partitions from ``since`` on; None: all. ``progress`` gets the rows of each batch."""
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
