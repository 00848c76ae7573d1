"""Compaction of an Iceberg table: its newest version, and the commit that replaces files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager

import pyarrow as pa
import pyarrow.dataset as ds

from fairlead_ingest import errors
from fairlead_ingest.io.table.compaction import Compaction, TablePart
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.io.table.iceberg import columns, contents, file_io, iceberg_table, versions
from fairlead_ingest.io.table.iceberg.format import IcebergFormat
from fairlead_ingest.io.table.iceberg.iceberg_table import OpenTables
from fairlead_ingest.io.table.iceberg.versions import NewVersion, RemovedFileGone, TableChange
from fairlead_ingest.table.commit import Collided
from fairlead_ingest.table.store_path import Place


def of(table_format: IcebergFormat, table: Place) -> Compaction:
    """The compaction of ``table``. Raises ``Stop`` if there is no table, or its rows cannot be rewritten here."""
    return Compaction(table, lambda: _IcebergVersion(table_format.open, table), table_format.writing)


class _IcebergVersion:
    def __init__(self, tables: OpenTables, table: Place) -> None:
        self._tables, self._table = tables, table
        self._found = tables.required(table)
        self.number = versions.number(self._found)
        self.schema: pa.Schema = columns.to_arrow(self._found.schema())
        with tables.explained(table):
            if iceberg_table.has_deletes(self._found):
                raise errors.Stop(
                    errors.TABLE_UNFIT,
                    f"{table}: another engine has marked rows as deleted; compact it with that engine"
                    " (rewrite_data_files)",
                )
            self._files = {
                file_io.relative(table, each.location): each for each in iceberg_table.list_parts(self._found)
            }
        self.parts = [
            TablePart(path=path, topic=each.topic, date=str(each.date), size=each.size, rows=each.rows)
            for path, each in self._files.items()
        ]

    def rows(self, paths: Collection[str]) -> ds.Dataset:
        return contents.parts_dataset(
            self._table, self._found, [each for path, each in self._files.items() if path in paths]
        )

    def explained(self) -> AbstractContextManager[None]:
        return self._tables.explained(self._table)

    def replace(self, removed: Sequence[TablePart], files: Sequence[WrittenFile]) -> None:
        added = columns.data_files(self._table, self._found, files)
        gone = frozenset(self._files[part.path].location for part in removed)
        try:
            with self._tables.committing(self._table):
                NewVersion(self._found).commit(TableChange(added=added, removed=gone))
        except RemovedFileGone as error:
            raise Collided(f"{self._table}: {error}") from error
