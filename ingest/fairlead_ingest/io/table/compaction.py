"""Small files of a partition into large ones, or sorted ones, beside a running job and beside another compaction.

New files are written first; then one commit takes the old ones out and the new ones in, as the very next version and
only while all of the old ones are in the table.  Where something else was committed in between, the same is tried on
top of that, so that an append is never lost.  The libraries' own ways are not used: of two at the same moment delta-rs
lets both in, and every row is there twice; pyiceberg has none.  Old files stay on disk until vacuum takes them.

A format says what a version of its table is (``CompactableVersion``); all else is the same for each.
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
"""A job commits every second; a try takes a hundredth of that, in a store a tenth."""
PAUSE_SECONDS: Final = 0.01
PAUSE_SECONDS_MAX: Final = 0.5
SORTED_BYTES: Final = 512 * 1024 * 1024
"""Of files whose rows are sorted together, which are in memory then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePart:
    """One file of the table; ``path`` as it is below it, ``rows`` where the log says how many."""

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
    """One version of a table, as it was looked at."""

    number: int
    schema: pa.Schema
    parts: list[TablePart]

    def rows(self, paths: Collection[str]) -> ds.Dataset:
        """Of these files, all of which are in it."""

    def explained(self) -> AbstractContextManager[None]:
        """What a store answers while rows are read is said in a sentence of ours."""

    def replace(self, removed: Sequence[TablePart], files: Sequence[WrittenFile]) -> None:
        """The very next version has ``files`` instead of ``removed``. Raises ``Collided``: look again, it may stand."""


class Compaction:
    """Of one table. ``look`` opens its newest version, or raises ``Stop`` where there is none."""

    def __init__(
        self, table: Place, look: Callable[[], CompactableVersion], writing: Callable[[Place], PartitionedFiles]
    ) -> None:
        self._table = table
        self._look = look
        self._writing = writing
        self.columns: list[str] = list(look().schema.names)

    def partitions(self) -> list[Partition]:
        """Oldest day first."""
        found: dict[tuple[str, str], list[TablePart]] = {}
        for part in self._look().parts:
            found.setdefault((part.date, part.topic), []).append(part)
        return [Partition(topic=topic, date=date, parts=tuple(parts)) for (date, topic), parts in sorted(found.items())]

    def compact(
        self, *, target_bytes: int, sort_by: Sequence[str] = (), progress: Callable[[object], None] = lambda _: None
    ) -> dict[str, Any]:
        """Join small files up to ``target_bytes``, or sort each partition's rows by these columns; what was done."""
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
        """Empty where files of the group are gone already."""
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
                errors.TABLE_UNFIT, f"{self._table}: {group[0].path} and others do not hold the rows they should"
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
        """False where others have taken some of the files out meanwhile: theirs stands."""

        def attempt() -> bool:
            now = self._look()
            live = {part.path for part in now.parts}
            if any(file.path in live for file in files):
                return True  # it was committed, and only the answer was lost
            if not {part.path for part in group} <= live:
                return False
            now.replace(group, files)
            return True

        return collisions.retried(
            self._table, attempt, tries=TRIES, pause_seconds=PAUSE_SECONDS, pause_seconds_max=PAUSE_SECONDS_MAX
        )


def _groups(parts: Sequence[TablePart], most: int, *, is_sorting: bool) -> Iterator[list[TablePart]]:
    """Files that are read together; to be joined, those that are large already are left alone."""
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
