"""What a compaction needs of a Delta table: its newest version, and the commit that replaces files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from fairlead_ingest import errors
from fairlead_ingest.io.table.compaction import Compaction, TablePart
from fairlead_ingest.io.table.delta import delta_table, log_writer
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.table.store_path import Place


def of(table: Place) -> Compaction:
    """Raises ``Stop`` where there is no table."""
    return Compaction(table, lambda: _Version(table), log_writer.writing)


class _Version:
    def __init__(self, table: Place) -> None:
        found = delta_table.open_table(table)
        if found is None:
            raise errors.Stop(errors.TABLE_UNFIT, f"{table}: there is no table here")
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
