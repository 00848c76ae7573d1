"""Appends rows that a table does not have yet, by their identity, concurrently with other writers.

    read       the identities that the table holds
    append     state ─▶ files added since ─▶ commit that takes the table's commit sequence
                  ▲                            │ collided, or no answer
                  └────────────────────────────┘

If another writer commits first, ours collides, and the new files are read before the next try. So it does not matter
which writer adds the same rows, nor whether an earlier try of ours succeeded although its answer was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from fairlead_ingest.io.table import collisions, tables
from fairlead_ingest.io.table import files as parquet_files
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.table import commit
from fairlead_ingest.table.commit import TableState
from fairlead_ingest.table.store_path import Place

# Many, because a job that commits continuously collides often; a try takes milliseconds, in a store a few requests.
COLLISIONS_MAX = 100
PAUSE_SECONDS = 0.005
PAUSE_SECONDS_MAX = 0.1

T = TypeVar("T")


class UniqueAppend:
    """Appends rows with the given distinct ``identities`` (``_topic``, ``_id``, ``_date``) to one table.

    ``application`` names the writer in the table's log.
    """

    def __init__(self, table_format: TableFormat, table: Place, application: str, identities: pa.Table) -> None:
        self._table_format = table_format
        self._table = table
        self._application = application
        self._wanted = {
            str(topic): identities.filter(pc.equal(identities["_topic"], topic))["_id"].combine_chunks()
            for topic in pc.unique(identities["_topic"]).to_pylist()
        }
        # Read the state before the files, so that a commit in between collides.
        self.state = table_format.state(table, application)
        self._seen = {path for path, _ in table_format.files(table)}
        self._held = self._held_identities(identities)

    def holds(self, rows: pa.Table) -> pa.Array:
        """For each of ``rows``, whether the table had it when it was last read."""
        pairs = zip(rows["_topic"].to_pylist(), rows["_id"].to_pylist(), strict=True)
        return pa.array([pair in self._held for pair in pairs], pa.bool_())

    def append(
        self, rows: pa.Table, *, may_still: Callable[[TableState, pa.Table], None] = lambda state, rows: None
    ) -> pa.Table:
        """Append the rows that the table lacks; return them.

        ``may_still`` is called with the table's state just before the commit, and raises if the rows must not be added
        any more. Raises ``Stop``, ``Wait``.
        """
        files: list[WrittenFile] | None = None

        def attempt() -> pa.Table:
            nonlocal rows, files
            self._refresh()
            new = rows.filter(pc.invert(self.holds(rows)))
            if new.num_rows < rows.num_rows:
                rows, files = new, None
            if not rows.num_rows:
                return rows
            may_still(self.state, rows)
            if files is None:
                writing = self._table_format.writing(self._table)
                writing.add(rows)
                files = writing.close()
            self._commit(files)
            self._held |= set(zip(rows["_topic"].to_pylist(), rows["_id"].to_pylist(), strict=True))
            return rows

        return self._retried(attempt)

    def append_files(self, files: Sequence[WrittenFile], *, upto: Callable[[TableState], Mapping[str, str]]) -> int:
        """Append finished files without rows that the table has; return the number of rows added.

        ``upto`` returns, for the table's state just before the commit, the last id by topic that may be added. A file
        with rows to leave out is rewritten; the old one is an orphan for vacuum. Raises ``Stop``, ``Wait``.
        """
        left = list(files)

        def attempt() -> int:
            nonlocal left
            self._refresh()
            bounds = upto(self.state)
            left = [each for file in left for each in self._cut(file, bounds.get(file.topic))]
            if left:
                self._commit(left)
            return sum(file.rows for file in left)

        return self._retried(attempt)

    # --- inside

    def _retried(self, attempt: Callable[[], T]) -> T:
        return collisions.retried(
            self._table,
            attempt,
            tries=COLLISIONS_MAX,
            pause_seconds=PAUSE_SECONDS,
            pause_seconds_max=PAUSE_SECONDS_MAX,
        )

    def _commit(self, files: Sequence[WrittenFile]) -> None:
        self._table_format.append(self._table, files, commit.of_no_batch(self.state, self._application))
        self._seen |= {file.path for file in files}

    def _cut(self, file: WrittenFile, last: str | None) -> list[WrittenFile]:
        """The file without rows that the table holds or that come after ``last``."""
        held = [name for topic, name in self._held if topic == file.topic]
        highest = file.maximum.get("_id")
        if not held and (last is None or (highest is not None and highest <= last)):
            return [file]
        rows = parquet_files.content(self._table, file)
        goes_in = pc.invert(pc.is_in(rows["_id"], value_set=pa.array(held, pa.string())))
        if last is not None:
            goes_in = pc.and_(goes_in, pc.less_equal(rows["_id"], last))
        new = rows.filter(goes_in)
        if new.num_rows == rows.num_rows:
            return [file]
        writing = self._table_format.writing(self._table)
        if new.num_rows:
            writing.add(new)
        return writing.close()

    def _held_identities(self, identities: pa.Table) -> set[tuple[str, str]]:
        """The identities that the table holds, with one scan for each topic and date."""
        found: set[tuple[str, str]] = set()
        rows = tables.existing(self._table_format, self._table)
        days = identities.group_by(["_topic", "_date"], use_threads=False).aggregate([("_id", "min"), ("_id", "max")])
        for day in days.to_pylist():
            is_day = pc.and_(pc.equal(identities["_topic"], day["_topic"]), pc.equal(identities["_date"], day["_date"]))
            # With these bounds, the statistics of files can rule them out before they are read.
            condition = (
                (pc.field("_topic") == day["_topic"])
                & (pc.field("_date") == pa.scalar(day["_date"], pa.date32()))
                & (pc.field("_id") >= day["_id_min"])
                & (pc.field("_id") <= day["_id_max"])
                & pc.field("_id").isin(identities.filter(is_day)["_id"].combine_chunks())
            )
            ids = rows.to_table(columns=["_id"], filter=condition)["_id"]
            found |= {(day["_topic"], each) for each in ids.to_pylist()}
        return found

    def _refresh(self) -> None:
        """Read the state, then the files that were committed since the last read."""
        self.state = self._table_format.state(self._table, self._application)
        for path, topic in self._table_format.files(self._table):
            if path in self._seen:
                continue
            wanted = self._wanted.get(topic)
            if wanted is not None:
                bounds = pc.min_max(wanted).as_py()
                near = [("_id", ">=", bounds["min"]), ("_id", "<=", bounds["max"])]
                ids = pc.unique(parquet_files.filtered(self._table, path, ["_id"], near)["_id"])
                self._held |= {(topic, each) for each in ids.filter(pc.is_in(ids, value_set=wanted)).to_pylist()}
            self._seen.add(path)
