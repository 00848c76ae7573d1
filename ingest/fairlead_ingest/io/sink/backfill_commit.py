"""What a backfill has written into files, on its way into a table: each row once, beside every other writer.

    files of tasks ─▶ less what the table has by now ─▶ less what a job has begun to bring ─▶ commit
                           ▲                                                                   │ collided
                           └───────────────────────────────────────────────────────────────────┘

The backfill has left out what the table held when it looked. What came since (a second backfill, a repair, a job that
was started meanwhile) is found here by topic and id, and the commit takes the table's commit sequence
(``unique_append``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairlead_ingest.io.sink import batch_commit, side_tables
from fairlead_ingest.io.sink.batch_commit import COLLISIONS_MAX
from fairlead_ingest.io.sink.task_writer import NO_BATCH
from fairlead_ingest.io.table import collisions, tables
from fairlead_ingest.io.table import files as parquet_files
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.io.table.unique_append import UniqueAppend
from fairlead_ingest.source.gaps import GapRow
from fairlead_ingest.table import commit
from fairlead_ingest.table.store_path import Place

APPLICATION = "fairlead:backfill"


def append(
    table_format: TableFormat, table: Place, rows: Sequence[WrittenFile], dead: Sequence[WrittenFile]
) -> tuple[int, int]:
    """Rows, and before them dead letters, that the tables lack; how many of each went in. Raises ``Stop``, ``Wait``."""
    letters = 0
    if dead:
        # A letter of a batch that is not in yet is the job's, as its row would be.
        bounds = commit.left_to_job(table_format.state(table, APPLICATION))
        letters = _append(table_format, tables.beside(table, tables.DEAD_LETTERS), dead, bounds)
    return (_append(table_format, table, rows) if rows else 0), letters


def append_gaps(table_format: TableFormat, table: Place, reported: Sequence[GapRow]) -> None:
    """What edge agents reported as lost and the table of gaps lacks. Raises ``Stop``, ``Wait``."""
    bounds = commit.left_to_job(table_format.state(table, APPLICATION))
    wanted = [gap for gap in reported if gap.topic not in bounds or gap.from_position <= bounds[gap.topic]]
    if not wanted:
        return
    beside = tables.beside(table, tables.GAPS)
    table_format.ensure(beside, tables.GAPS_SCHEMA)

    def attempt() -> None:
        state = table_format.state(beside, APPLICATION)
        new = side_tables.gaps_not_held(table_format, beside, wanted)
        if new:
            files = batch_commit.gap_files(table_format.writing(beside), new, NO_BATCH)
            table_format.append(beside, files, commit.of_no_batch(state, APPLICATION))

    collisions.retried(beside, attempt, tries=COLLISIONS_MAX)


def _append(
    table_format: TableFormat, table: Place, files: Sequence[WrittenFile], bounds: Mapping[str, str] | None = None
) -> int:
    appending = UniqueAppend(table_format, table, APPLICATION, parquet_files.identities(table, files))
    return appending.append_files(files, upto=commit.left_to_job if bounds is None else lambda _: bounds)
