"""What a report says about a table, counted from the table; a few columns are read, never the bodies."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from fairlead_ingest.io import status
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.table.report import UNKNOWN, DeadLetters, Delay, Facts
from fairlead_ingest.table.store_path import Place

QUANTILES = (0.5, 0.95, 0.99)


def of(name: str, table_format: TableFormat, path: Place) -> Facts:
    """The facts of one table and its side tables. Raises ``Stop`` where there is no table."""
    table = tables.existing(table_format, path)
    held = set(table.schema.names)
    wanted = ["_published_at", "_ingested_at", *(each for each in ("node", "priority", "enqueued_at") if each in held)]
    rows = table.to_table(columns=wanted)
    hours = pc.strftime(pc.floor_temporal(rows["_published_at"], unit="hour"), "%Y-%m-%d %H:00")
    return Facts(
        name=name,
        table=str(path),
        rows=rows.num_rows,
        fresh=status.fresh_within(table_format, path),
        by_node=_counts(rows["node"], most_first=True) if "node" in held else (),
        by_hour=_counts(hours),
        by_priority=_counts(rows["priority"]) if "priority" in held else (),
        delays=_delays(rows) if "enqueued_at" in held else (),
        gaps=_gaps(tables.existing(table_format, tables.beside(path, tables.GAPS))),
        dead_letters=_dead_letters(tables.existing(table_format, tables.beside(path, tables.DEAD_LETTERS))),
    )


def _counts(column: pa.ChunkedArray, *, most_first: bool = False) -> list[tuple[str, int]]:
    found = [(str(each["values"]), each["counts"]) for each in column.value_counts().to_pylist()]
    return sorted(found, key=lambda pair: -pair[1]) if most_first else sorted(found)


def _delays(rows: pa.Table) -> list[Delay]:
    found = []
    for priority in sorted(pc.unique(rows["priority"]).to_pylist(), key=lambda each: (each is None, each)):
        same = pc.is_null(rows["priority"]) if priority is None else pc.equal(rows["priority"], priority)
        some = rows.filter(same).filter(pc.is_valid(pc.field("enqueued_at")))
        if some.num_rows:
            found.append(
                Delay(
                    priority=priority,
                    rows=some.num_rows,
                    to_messaging=_quantiles(some["_published_at"], some["enqueued_at"]),
                    to_table=_quantiles(some["_ingested_at"], some["enqueued_at"]),
                )
            )
    return found


def _quantiles(later: pa.ChunkedArray, earlier: pa.ChunkedArray) -> tuple[float, float, float]:
    micros = pc.cast(pc.subtract(later, earlier), pa.int64())
    p50, p95, p99 = (max(0.0, each / 1_000_000) for each in pc.tdigest(micros, q=list(QUANTILES)).to_pylist())
    return p50, p95, p99


def _gaps(table: ds.Dataset) -> list[list[str]]:
    return [
        [
            gap["reason"],
            gap["_topic"],
            f"{gap['from_generation']}:{gap['from_position']}",
            f"{gap['to_generation']}:{gap['to_position']}",
            "unknown" if gap["rows"] is None else str(gap["rows"]),
        ]
        for gap in table.to_table().to_pylist()
    ]


def _dead_letters(table: ds.Dataset) -> list[DeadLetters]:
    """By code and fields; a table that no job of this version has opened has neither."""
    held = set(table.schema.names)
    found: dict[tuple[str, tuple[str, ...]], DeadLetters] = {}
    for batch in table.to_batches(columns=[name for name in ("error", "code", "fields") if name in held]):
        for row in batch.to_pylist():
            key = row.get("code") or UNKNOWN, tuple(row.get("fields") or ())
            before = found.get(key) or DeadLetters(code=key[0], fields=key[1], rows=0, example=row["error"] or "")
            found[key] = replace(before, rows=before.rows + 1)
    return sorted(found.values(), key=lambda each: (-each.rows, each.code, each.fields))
