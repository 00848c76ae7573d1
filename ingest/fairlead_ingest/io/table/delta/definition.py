"""What a Delta table of ours is: its columns, its partitions, its properties; made here, grown here."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, Schema

from fairlead_ingest import errors
from fairlead_ingest.io.table import table_format
from fairlead_ingest.io.table.delta import opened
from fairlead_ingest.io.table.files import PARTITION_COLUMNS
from fairlead_ingest.table.store_path import Place

BOUNDED: Final = "delta.dataSkippingStatsColumns"
# A job commits every second, and opening a table lists its log: 100,000 entries cost 100 ms, four times a batch.
CONFIGURATION = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 6 hours",
    "delta.enableExpiredLogCleanup": "true",
    # Of which columns the log has bounds, for every file. Without this delta-rs takes a column without bounds for one
    # that no file has a value of: a condition on it, in DuckDB say, finds nothing.
    BOUNDED: "_id,_published_at,node",
}
STORE_CHECKPOINT_COMMITS: Final = 20
"""A checkpoint costs some sixty requests; without one, opening the table asks once for each commit."""
STORE_CONFIGURATION: Final = {**CONFIGURATION, "delta.checkpointInterval": str(STORE_CHECKPOINT_COMMITS)}
"""In a store each commit since the checkpoint is a request of its own for each program that opens the table."""


def ensure(table: Place, schema: pa.Schema) -> None:
    """Make ``table`` if it is not there; let it grow by columns it lacks. Raises ``Stop`` where types clash."""
    existing = opened.open_table(table)
    if existing is None:
        if isinstance(table, Path):
            table_format.refuse_other(table, "delta")
            table.parent.mkdir(parents=True, exist_ok=True)
        with opened.explained(table):
            DeltaTable.create(
                str(table),
                Schema.from_arrow(schema),
                mode="ignore",
                partition_by=list(PARTITION_COLUMNS),
                configuration=CONFIGURATION if isinstance(table, Path) else STORE_CONFIGURATION,
                storage_options=opened.options(table),
            )
        return
    missing = table_format.missing_columns(table, existing.schema(), schema)
    if list(existing.metadata().partition_columns) != list(PARTITION_COLUMNS):
        raise errors.Stop(errors.TABLE_UNFIT, f"{table}: not partitioned by {', '.join(PARTITION_COLUMNS)}")
    if missing:
        with opened.explained(table):
            existing.alter.add_columns(missing)
    if BOUNDED not in existing.metadata().configuration:
        with opened.explained(table):
            existing.alter.set_table_properties({BOUNDED: CONFIGURATION[BOUNDED]})
