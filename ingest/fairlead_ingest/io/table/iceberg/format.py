"""The table format for Iceberg tables in a catalog.

    data files     written by tasks, as for every format; readers see them once a version names them
    a version      manifests and a summary, written by the driver (``versions``)
    the commit     one atomic step of the catalog, on condition that the table's head has not changed

A commit may have succeeded even if it raises an error, because the answer can be lost; then the table is read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from fairlead_ingest.io.table.files import PartitionedFiles, WrittenFile, sync_all
from fairlead_ingest.io.table.iceberg import (
    account,
    columns,
    contents,
    definition,
    file_io,
    iceberg_table,
    tidying,
    versions,
)
from fairlead_ingest.io.table.iceberg.iceberg_table import OpenTables
from fairlead_ingest.io.table.iceberg.versions import NewVersion, TableChange
from fairlead_ingest.io.table.table_format import Size
from fairlead_ingest.source.offsets import Offsets
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.commit import Append, Collided, TableState
from fairlead_ingest.table.commit_info import Lineage, LogEntry
from fairlead_ingest.table.store_path import Place


class IcebergFormat:
    """Implements ``TableFormat`` for the tables of one catalog."""

    def __init__(self, catalog: Catalog | None) -> None:
        self.open = OpenTables(catalog)

    # --- what a job does

    def ensure(self, table: Place, schema: pa.Schema) -> None:
        """Create ``table`` or add missing columns. Raises ``Stop``, ``Wait``."""
        definition.ensure(self.open, table, schema)

    def writing(self, table: Place) -> PartitionedFiles:
        """A writer of new files, at their final paths; readers see only files that the current version names."""
        return PartitionedFiles(table, is_whole=True)

    def state(self, table: Place, application: str) -> TableState:
        """The state from the current version; an empty state if there is no table."""
        found = self.open.find(table)
        if found is None:
            return TableState()
        with self.open.explained(table):
            newest, line = account.newest(found)
            if newest is None:
                return TableState(reached=contents.reached_by(table, found))
            batch = newest.batches.get(application)
            return TableState(
                batch=-1 if batch is None else batch,
                reached=newest.info.reached if line is Lineage.CURRENT else contents.reached_by(table, found),
                commit_sequence=newest.info.sequence,
                totals=newest.info.totals,
                is_cut=line is Lineage.CUT and batch is not None,
            )

    def append(self, table: Place, files: Sequence[WrittenFile], decided: Append) -> None:
        """Commit ``files``, summary and properties atomically. Raises ``Collided``, ``Stop``, ``Wait``."""
        target = self.open.when_decided(table)
        before, _ = account.newest(target)
        if not decided.follows(0 if before is None else before.info.sequence):
            raise Collided(f"{table}: another writer has committed since")
        if isinstance(table, Path):
            sync_all({(table / file.path).parent for file in files})
        version = NewVersion(target)
        summary, properties = account.account_of(version, before, decided)
        with self.open.committing(table):
            version.commit(TableChange(added=columns.data_files(table, target, files), summary=summary), properties)
        if version.number % tidying.TIDY_EVERY == 0:
            with self.open.explained(table):
                tidying.tidy_metadata(target, table)

    # --- what is in a table

    def reached(self, table: Place) -> Offsets:
        """The table's position in each topic; empty if there is no table."""
        return self.state(table, "").reached

    def highest_ids(self, table: Place) -> dict[str, str]:
        """By topic, the highest id in the bounds of its files."""
        highest: dict[str, str] = {}
        for part in self._parts(table):
            if part.highest_id > highest.get(part.topic, ""):
                highest[part.topic] = part.highest_id
        return highest

    def last_entries(self, table: Place, limit: int) -> list[LogEntry]:
        """The last versions, newest first; only our newest one has positions."""
        found = self.open.find(table)
        if found is None:
            return []
        with self.open.explained(table):
            return list(account.entries(found, limit))

    def version(self, table: Place) -> int | None:
        """The number of the current version, None if there is no table."""
        found = self.open.find(table)
        return None if found is None else versions.number(found)

    def size(self, table: Place) -> Size | None:
        """The size according to the summary, None if there is no table."""
        found = self.open.find(table)
        if found is None:
            return None
        with self.open.explained(table):
            sums = versions.totals(found)
            return Size(
                version=versions.number(found),
                files=sums["total-data-files"],
                rows=sums["total-records"],
                bytes=sums["total-files-size"],
            )

    def files(self, table: Place) -> list[tuple[str, str]]:
        """(path below the table, topic) of every file, oldest first."""
        return [(file_io.relative(table, part.location), part.topic) for part in self._parts(table)]

    def dataset(self, table: Place) -> ds.Dataset | None:
        """The rows of the current version, None if there is no table."""
        found = self.open.find(table)
        if found is None:
            return None
        with self.open.explained(table):
            return contents.table_dataset(table, found)

    def vacuum(self, table: Place, *, retention_hours: int, dry_run: bool) -> list[str]:
        """Delete files that no version within the retention needs, also those of killed tasks; return their paths."""
        found = self.open.find(table)
        if found is None:
            return []
        with self.open.explained(table):
            return tidying.vacuum(found, table, retention_hours=retention_hours, dry_run=dry_run)

    def _parts(self, table: Place) -> list[iceberg_table.Part]:
        found = self.open.find(table)
        if found is None:
            return []
        with self.open.explained(table):
            return iceberg_table.list_parts(found)


@lru_cache(maxsize=16)
def of(catalog: Catalog | None) -> IcebergFormat:
    """The format for a catalog; one for each catalog and process."""
    return IcebergFormat(catalog)
