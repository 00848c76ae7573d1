"""Keeping a table small and clean while a job writes it: compaction, z-order, vacuum.

Both work beside a running job: its appends and a compaction never conflict, and vacuum only takes files older than the
longest batch can be. Compaction goes partition by partition, so that progress can be shown and a stop loses little.
"""

from __future__ import annotations

from deltalake import DeltaTable

from fairlead_ingest import errors
from fairlead_ingest.io.table import delta, tables
from fairlead_ingest.io.table.compaction import Compaction
from fairlead_ingest.io.table.delta import compaction as delta_compaction
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.settings import IngestSettings, Pipeline
from fairlead_ingest.table.store_path import Place

TARGET_BYTES = 128 * 1024 * 1024
# Files of a batch that is being written are in no log yet; vacuum must not take them for orphans.
RETENTION_HOURS_MIN = 1
RETENTION_HOURS = 168


def compaction(settings: IngestSettings, pipeline: Pipeline) -> Compaction:
    """Of a pipeline's table. Raises ``Stop`` where there is none, or its format has no such thing."""
    place = settings.place(pipeline.table)
    if (pipeline.table_format or settings.table_format) == tables.ICEBERG:
        return _of_iceberg(settings, pipeline, place)
    open_table(place)
    return delta_compaction.of(place)


def _of_iceberg(settings: IngestSettings, pipeline: Pipeline, place: Place) -> Compaction:
    table_format = tables.of_pipeline(settings, pipeline)  # says what is missing where it is not installed
    from fairlead_ingest.io.table.iceberg import compaction as iceberg_compaction
    from fairlead_ingest.io.table.iceberg.format import IcebergFormat

    assert isinstance(table_format, IcebergFormat)
    return iceberg_compaction.of(table_format, place)


def open_table(path: Place) -> DeltaTable:
    """The Delta table. Raises ``Stop`` where there is none."""
    found = delta.open_table(path)
    if found is not None:
        return found
    raise errors.Stop(errors.TABLE_UNFIT, f"{path}: there is no table here")


def vacuum(
    table_format: TableFormat, table: Place, *, retention_hours: int = RETENTION_HOURS, dry_run: bool = False
) -> list[str]:
    """Delete files no version inside the retention needs, those of killed tasks included; their paths."""
    if retention_hours < RETENTION_HOURS_MIN:
        raise errors.Stop(
            errors.BAD_OPTION,
            f"retention: at least {RETENTION_HOURS_MIN} hour, or a running batch's files would be taken for orphans",
        )
    if table_format.size(table) is None:
        raise errors.Stop(errors.TABLE_UNFIT, f"{table}: there is no table here")
    return table_format.vacuum(table, retention_hours=retention_hours, dry_run=dry_run)
