"""Iceberg tables in a catalog, as one more table format: made here, looked at here, committed to here.

    data files     written by tasks, as for every format; seen by no reader before a version names them
    a version      manifests and a summary beside them, written by the driver (``versions``)
    the commit     one step of the catalog, on condition that the table's head is the one that was looked at

Whatever goes wrong in a commit, it may stand: the answer alone can be lost.  Nothing is assumed; we look again.
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
    """Behind ``TableFormat``; the tables of one catalog."""

    def __init__(self, catalog: Catalog | None) -> None:
        self.open = OpenTables(catalog)

    # --- what a job does

    def ensure(self, table: Place, schema: pa.Schema) -> None:
        """Make ``table`` if it is not there; let it grow by columns it lacks. Raises ``Stop``, ``Wait``."""
        definition.ensure(self.open, table, schema)

    def writing(self, table: Place) -> PartitionedFiles:
        """Files in their place at once: readers see what the current version names, and nothing else."""
        return PartitionedFiles(table, is_whole=True)

    def state(self, table: Place, application: str) -> TableState:
        """What the current version says; nothing where there is no table."""
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
        """All of ``files``, the account and the summary, or nothing. Raises ``Collided``, ``Stop``, ``Wait``."""
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
        """How far the table goes per topic; nowhere where there is none."""
        return self.state(table, "").reached

    def highest_ids(self, table: Place) -> dict[str, str]:
        """By topic, the highest id that the bounds of its files say."""
        highest: dict[str, str] = {}
        for part in self._parts(table):
            if part.highest_id > highest.get(part.topic, ""):
                highest[part.topic] = part.highest_id
        return highest

    def last_entries(self, table: Place, limit: int) -> list[LogEntry]:
        """The newest versions, newest first; only the newest of ours says positions too."""
        found = self.open.find(table)
        if found is None:
            return []
        with self.open.explained(table):
            return list(account.entries(found, limit))

    def version(self, table: Place) -> int | None:
        """The number of the current version, None where there is no table."""
        found = self.open.find(table)
        return None if found is None else versions.number(found)

    def size(self, table: Place) -> Size | None:
        """What its summary says is in the table, None where there is none."""
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
        """The rows of the current version, None where there is no table."""
        found = self.open.find(table)
        if found is None:
            return None
        with self.open.explained(table):
            return contents.table_dataset(table, found)

    def vacuum(self, table: Place, *, retention_hours: int, dry_run: bool) -> list[str]:
        """Delete files no version inside the retention needs, those of killed tasks included; their paths."""
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
    """One for each catalog and process."""
    return IcebergFormat(catalog)
