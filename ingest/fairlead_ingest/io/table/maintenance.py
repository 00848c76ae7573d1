"""Maintains a table while a job writes to it: compaction, sorting, vacuum.

Both are safe beside a running job: a compaction never conflicts with appends, and vacuum deletes only files older than
the longest possible batch. Compaction goes partition by partition, to show progress and to lose little when stopped.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from fairlead_ingest import errors
from fairlead_ingest.io.table import delta, tables
from fairlead_ingest.io.table.compaction import Compaction, TablePart
from fairlead_ingest.io.table.delta import delta_table, log_writer
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.settings import IngestSettings, Pipeline
from fairlead_ingest.table.store_path import Place


def delta_compaction(table: Place) -> Compaction:
    """The compaction of a Delta table. Raises ``Stop`` if there is no table."""
    return Compaction(table, lambda: _Version(table), log_writer.writing)


class _Version:
    def __init__(self, table: Place) -> None:
        found = delta_table.open_table(table)
        if found is None:
            raise errors.no_table(table)
        self._table, self._found = table, found
        self.number = found.version()
        self.schema = pa.schema(found.schema().to_arrow())
        with delta_table.explained(table):
            self.parts = _parts(found)

    def rows(self, paths: Collection[str]) -> ds.Dataset:
        whole = delta_table.rows(self._table, self._found)
        fragments = [each for each in whole.get_fragments() if each.path in paths]
        return ds.FileSystemDataset(fragments, whole.schema, whole.format, whole.filesystem)

    def explained(self) -> AbstractContextManager[None]:
        return delta_table.explained(self._table)

    def replace(self, removed: Sequence[TablePart], files: Sequence[WrittenFile]) -> None:
        log_writer.replace(self._table, self._found, [(part.path, part.size) for part in removed], files)


def _parts(table: DeltaTable) -> list[TablePart]:
    actions = pa.table(table.get_add_actions(flatten=True))
    if not actions.num_rows:
        return []
    names = ("path", "partition._topic", "partition._date", "size_bytes", "num_records")
    return [
        TablePart(path=unquote(path), topic=str(topic), date=str(date), size=size, rows=rows)
        for path, topic, date, size, rows in zip(*(actions[name].to_pylist() for name in names), strict=True)
    ]


TARGET_BYTES = 128 * 1024 * 1024
# The files of a running batch are not in the log yet; vacuum must not take them for orphans.
RETENTION_HOURS_MIN = 1
RETENTION_HOURS = 168


def compaction(settings: IngestSettings, pipeline: Pipeline) -> Compaction:
    """The compaction of a pipeline's table. Raises ``Stop`` if there is no table, or it cannot be compacted."""
    place = settings.place(pipeline.table)
    if (pipeline.table_format or settings.table_format) == tables.ICEBERG:
        return _of_iceberg(settings, pipeline, place)
    open_table(place)
    return delta_compaction(place)


def _of_iceberg(settings: IngestSettings, pipeline: Pipeline, place: Place) -> Compaction:
    table_format = tables.of_pipeline(settings, pipeline)  # raises if Iceberg is not installed
    from fairlead_ingest.io.table.iceberg import compaction as iceberg_compaction
    from fairlead_ingest.io.table.iceberg.format import IcebergFormat

    assert isinstance(table_format, IcebergFormat)
    return iceberg_compaction.of(table_format, place)


def open_table(path: Place) -> DeltaTable:
    """The Delta table at ``path``. Raises ``Stop`` if there is none."""
    found = delta.open_table(path)
    if found is not None:
        return found
    raise errors.no_table(path)


def vacuum(
    table_format: TableFormat, table: Place, *, retention_hours: int = RETENTION_HOURS, dry_run: bool = False
) -> list[str]:
    """Delete files that no version within the retention needs, also those of killed tasks; return their paths."""
    if retention_hours < RETENTION_HOURS_MIN:
        raise errors.Stop(
            errors.BAD_OPTION,
            f"--retention-hours must be at least {RETENTION_HOURS_MIN} hour, or files of a running batch would be"
            " deleted",
        )
    if table_format.size(table) is None:
        raise errors.no_table(table)
    return table_format.vacuum(table, retention_hours=retention_hours, dry_run=dry_run)
