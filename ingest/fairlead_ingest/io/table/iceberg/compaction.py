"""Small files of a partition into large ones, beside a running job: the library has no such thing yet.

New files are written first; then one version takes the old ones out and the new ones in, on condition that nothing else
was committed in between.  Where something was, the same is tried on top of that, so that an append in between is never
lost.  Old files stay on disk until the versions that name them have expired and vacuum takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from fairlead_ingest import errors
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.io.table.iceberg.format import IcebergFormat
from fairlead_ingest.io.table.iceberg.listing import Part
from fairlead_ingest.io.table.iceberg.versions import Gone
from fairlead_ingest.table.commit import Collided
from fairlead_ingest.table.store_path import Place

TRIES: Final = 50
"""A job commits every second; a version is made in a tenth of that."""


@dataclass(frozen=True, slots=True)
class IcebergPartition:
    """One topic on one day."""

    topic: str
    date: str
    parts: tuple[Part, ...]


class IcebergCompaction:
    """Of one table. Raises ``Stop`` where there is none, or where it holds what we cannot write again."""

    def __init__(self, table_format: IcebergFormat, table: Place) -> None:
        self._format = table_format
        self._table = table
        self.columns = table_format.column_names(table)
        if table_format.has_deletes(table):
            raise errors.Stop(
                errors.TABLE_UNFIT,
                f"{table}: another engine has marked rows as deleted; compact it with that engine (rewrite_data_files)",
            )

    def partitions(self) -> list[IcebergPartition]:
        """Oldest day first."""
        found: dict[tuple[str, str], list[Part]] = {}
        for part in self._format.parts(self._table):
            found.setdefault((str(part.date), part.topic), []).append(part)
        return [IcebergPartition(topic, date, tuple(parts)) for (date, topic), parts in sorted(found.items())]

    def compact(
        self, *, target_bytes: int, sort_by: Sequence[str] = (), progress: Callable[[object], None] = lambda _: None
    ) -> dict[str, Any]:
        """Join small files up to ``target_bytes``, or sort each partition's rows by these columns; what was done."""
        totals = {"partitions": 0, "files_added": 0, "files_removed": 0}
        for partition in self.partitions():
            for group in _groups(partition.parts, target_bytes, is_sorting=bool(sort_by)):
                files = self._write(group, sort_by)
                if self._replace(group, files):
                    totals["files_added"] += len(files)
                    totals["files_removed"] += len(group)
            totals["partitions"] += 1
            progress(partition)
        return {**totals, "version": self._format.version(self._table)}

    def _write(self, group: Sequence[Part], sort_by: Sequence[str]) -> list[WrittenFile]:
        rows = self._format.rows_of(self._table, group)
        writing = self._format.writing(self._table)
        if sort_by:
            writing.add(rows.to_table().sort_by([(name, "ascending") for name in sort_by]))
        else:
            for batch in rows.to_batches():
                if batch.num_rows:
                    writing.add(pa.Table.from_batches([batch]))
        files = writing.close()
        if sum(file.rows for file in files) != sum(part.rows for part in group):
            raise errors.Stop(
                errors.TABLE_UNFIT, f"{self._table}: {group[0].location} and others do not hold the rows they should"
            )
        return files

    def _replace(self, group: Sequence[Part], files: Sequence[WrittenFile]) -> bool:
        """False where others have taken some of the files out meanwhile: theirs stands."""
        for _ in range(TRIES):
            try:
                self._format.replace(self._table, group, files)
                return True
            except (Collided, Gone) as error:
                if {file.path for file in files} <= {path for path, _ in self._format.files(self._table)}:
                    return True  # it was committed, and only the answer was lost
                if isinstance(error, Gone):
                    return False
        raise errors.Stop(errors.TABLE_TAKEN, f"{self._table}: other jobs commit to it all the time")


def _groups(parts: Sequence[Part], target_bytes: int, *, is_sorting: bool) -> Iterator[list[Part]]:
    """Files to be written as one; each is about ``target_bytes``, those that are large already are left alone."""
    group: list[Part] = []
    for part in parts:
        if part.size >= target_bytes and not is_sorting:
            continue
        if group and sum(each.size for each in group) + part.size > target_bytes:
            if len(group) > 1 or is_sorting:
                yield group
            group = []
        group.append(part)
    if len(group) > 1 or (group and is_sorting):
        yield group
