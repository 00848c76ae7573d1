"""Joins the small files of a partition, or sorts its rows, concurrently with a running job and other compactions.

New files are written first. Then one commit replaces the old files, as the next version and only if the table still has
all of them. If something else was committed in between, the commit is retried on top of it, so an append is never lost.
The libraries' own compaction is not used: delta-rs commits two concurrent ones, which duplicates all rows, and
pyiceberg has none. Old files stay on disk until vacuum deletes them.

A format provides a version of its table (``CompactableVersion``); everything else is common.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.dataset as ds

from fairlead_ingest import errors
from fairlead_ingest.io.table import collisions
from fairlead_ingest.io.table.files import PartitionedFiles, WrittenFile
from fairlead_ingest.table.store_path import Place

TRIES: Final = 50
"""Enough beside a job that commits every second: a try takes about 10 ms, in a store 100 ms."""
PAUSE_SECONDS: Final = 0.01
PAUSE_SECONDS_MAX: Final = 0.5
SORTED_BYTES: Final = 512 * 1024 * 1024
"""Size of the files whose rows are sorted together, in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePart:
    """One file of the table; ``path`` is relative to it, ``rows`` is None if the log does not have it."""

    path: str
    topic: str
    date: str
    size: int
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One topic on one day."""

    topic: str
    date: str
    parts: tuple[TablePart, ...]


class CompactableVersion(Protocol):
    """One version of a table."""

    number: int
    schema: pa.Schema
    parts: list[TablePart]

    def rows(self, paths: Collection[str]) -> ds.Dataset:
        """The rows of these files, which are all in this version."""

    def explained(self) -> AbstractContextManager[None]:
        """Explains errors of the store while rows are read."""

    def replace(self, removed: Sequence[TablePart], files: Sequence[WrittenFile]) -> None:
        """Commit the next version with ``files`` in place of ``removed``. Raises ``Collided`` if it may have failed."""


class Compaction:
    """Compacts one table. ``look`` opens its newest version, and raises ``Stop`` if there is no table."""

    def __init__(
        self, table: Place, look: Callable[[], CompactableVersion], writing: Callable[[Place], PartitionedFiles]
    ) -> None:
        self._table = table
        self._look = look
        self._writing = writing
        self.columns: list[str] = list(look().schema.names)

    def partitions(self) -> list[Partition]:
        """The partitions of the table, the oldest day first."""
        found: dict[tuple[str, str], list[TablePart]] = {}
        for part in self._look().parts:
            found.setdefault((part.date, part.topic), []).append(part)
        return [Partition(topic=topic, date=date, parts=tuple(parts)) for (date, topic), parts in sorted(found.items())]

    def compact(
        self, *, target_bytes: int, sort_by: Sequence[str] = (), progress: Callable[[object], None] = lambda _: None
    ) -> dict[str, Any]:
        """Join small files up to ``target_bytes``, or sort each partition's rows by columns; return what was done."""
        self._check(sort_by)
        totals = {"partitions": 0, "files_added": 0, "files_removed": 0}
        most = max(target_bytes, SORTED_BYTES) if sort_by else target_bytes
        for partition in self.partitions():
            for group in _groups(partition.parts, most, is_sorting=bool(sort_by)):
                files = self._write(group, target_bytes, sort_by)
                if files and self._replace(group, files):
                    totals["files_added"] += len(files)
                    totals["files_removed"] += len(group)
            totals["partitions"] += 1
            progress(partition)
        return {**totals, "version": self._look().number}

    # --- inside

    def _check(self, sort_by: Sequence[str]) -> None:
        schema = self._look().schema
        for name in sort_by:
            if pa.types.is_nested(schema.field(name).type):
                raise errors.Stop(
                    errors.BAD_OPTION,
                    f"{self._table}: column {name} is {schema.field(name).type}; sort by one with single values",
                )

    def _write(self, group: Sequence[TablePart], target_bytes: int, sort_by: Sequence[str]) -> list[WrittenFile]:
        """Write the new files; none if files of the group are already gone."""
        now, wanted = self._look(), {part.path for part in group}
        if not wanted <= {part.path for part in now.parts}:
            return []
        with now.explained():
            rows = now.rows(wanted)
            if sort_by:
                files = self._write_sorted(rows.to_table(), sum(part.size for part in group), target_bytes, sort_by)
            else:
                files = self._write_joined(rows)
        known = [part.rows for part in group if part.rows is not None]
        if len(known) == len(group) and sum(file.rows for file in files) != sum(known):
            raise errors.Stop(
                errors.TABLE_UNFIT,
                f"{self._table}: {group[0].path} and others do not have the number of rows in the log",
            )
        return files

    def _write_joined(self, rows: ds.Dataset) -> list[WrittenFile]:
        writing = self._writing(self._table)
        for batch in rows.to_batches(batch_readahead=1, fragment_readahead=1):
            if batch.num_rows:
                writing.add(pa.Table.from_batches([batch]))
        return writing.close()

    def _write_sorted(self, rows: pa.Table, size: int, target_bytes: int, sort_by: Sequence[str]) -> list[WrittenFile]:
        ordered = rows.sort_by([(name, "ascending") for name in sort_by])
        step = max(1, -(-ordered.num_rows // max(1, -(-size // target_bytes))))
        files = []
        for first in range(0, ordered.num_rows, step):
            writing = self._writing(self._table)
            writing.add(ordered.slice(first, step))
            files += writing.close()
        return files

    def _replace(self, group: Sequence[TablePart], files: Sequence[WrittenFile]) -> bool:
        """Commit the replacement; False if another writer has removed some of the files meanwhile."""

        def attempt() -> bool:
            now = self._look()
            live = {part.path for part in now.parts}
            if any(file.path in live for file in files):
                return True  # it was committed, but the answer was lost
            if not {part.path for part in group} <= live:
                return False
            now.replace(group, files)
            return True

        return collisions.retried(
            self._table, attempt, tries=TRIES, pause_seconds=PAUSE_SECONDS, pause_seconds_max=PAUSE_SECONDS_MAX
        )


def _groups(parts: Sequence[TablePart], most: int, *, is_sorting: bool) -> Iterator[list[TablePart]]:
    """Group the files to read together; files that are already large are left out unless sorting."""
    group: list[TablePart] = []
    for part in parts:
        if part.size >= most and not is_sorting:
            continue
        if group and sum(each.size for each in group) + part.size > most:
            if len(group) > 1 or is_sorting:
                yield group
            group = []
        group.append(part)
    if len(group) > 1 or (group and is_sorting):
        yield group
