"""Folds rows into the buckets of a latest table: reads files of rows and writes bucket files; it does not commit.

    pass 1  reads key and order of every row, and finds the newest row of each key
    pass 2  reads these rows whole, a few buckets at a time, merges them with the buckets' rows and writes the buckets

Memory: a few hundred bytes for each key with new rows, and one round of whole rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairlead_ingest.io.latest import row_files
from fairlead_ingest.io.latest.row_files import BucketFile, RowFiles
from fairlead_ingest.latest import newest
from fairlead_ingest.latest.definition import BUCKET, DELETED, LatestDefinition
from fairlead_ingest.table.store_path import Place

WINNOW_ROWS: Final = 262_144
"""How many rows are collected before all but the newest of each key are discarded."""
ROUND_ROWS: Final = 262_144
ROUND_BYTES: Final = 256 * 1024 * 1024
"""Limits of the whole rows in memory at a time; at least one bucket is."""
COMPRESSED_TIMES: Final = 4
"""Estimated ratio of a bucket's rows to its compressed file; it decides when buckets are split."""
_FILE, _ROW, _PLACE = "file", "row", "place"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestFiles:
    """The contents of the latest table: its files by bucket, and the number of buckets and keys."""

    table: Place
    schema: pa.Schema
    files: dict[int, list[BucketFile]] = field(default_factory=dict)
    count: int = 1
    keys: int = 0

    @property
    def row_bytes(self) -> int:
        """Estimated size of a row in the latest table; 0 if it has no rows."""
        size = sum(file.size for files in self.files.values() for file in files)
        return COMPRESSED_TIMES * size // self.keys if self.keys else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """The files to commit and the files they replace; ``changed`` is the number of keys with another row."""

    added: list[BucketFile]
    removed: list[BucketFile]
    count: int
    keys: int
    deleted: int
    changed: int


class Fold:
    """One fold. ``on_portion`` is called after each portion with the number of rows read; it may raise to cancel."""

    def __init__(
        self,
        rows: RowFiles,
        held: LatestFiles,
        definition: LatestDefinition,
        on_portion: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._rows = rows
        self._held = held
        self._definition = definition
        self._on_portion = on_portion
        self._added: list[BucketFile] = []
        self._removed: list[BucketFile] = []
        self._keys = 0
        self._deleted = 0
        self._changed = 0

    def run(self) -> Folded:
        """Read, compare, write. Raises ``FileGone``, ``Stop``, ``Wait``, ``OSError``."""
        winners = self._winners()
        held = self._held
        large = self._rows.mean_bytes
        wider = newest.bucket_count(max(held.keys, winners.num_rows), held.count, row_bytes=held.row_bytes or large)
        keys = winners.select([f"{newest.KEY}{index}" for index in range(len(self._definition.key))])
        # An empty table has no old buckets to split.
        count = held.count if held.files else wider
        winners = winners.append_column(BUCKET, newest.bucket_of(keys, count))
        todo = {bucket: 0 for bucket, files in held.files.items() if wider > count or len(files) > 1}
        todo |= _counts(winners[BUCKET])
        for together in newest.rounds(todo, min(ROUND_ROWS, ROUND_BYTES // max(1, large))):
            chosen = winners.filter(pc.is_in(winners[BUCKET], value_set=pa.array(together, pa.int32())))
            rows = self._whole(chosen)
            for bucket in together:
                self._merge(bucket, rows.filter(pc.equal(rows[BUCKET], bucket)), count, wider)
        return Folded(
            added=self._added,
            removed=self._removed,
            count=wider,
            keys=self._keys,
            deleted=self._deleted,
            changed=self._changed,
        )

    def _winners(self) -> pa.Table:
        """The newest row of each key: its key, order, whether it deletes, and its file and row number."""
        best: pa.Table | None = None
        waiting: list[pa.Table] = []
        number = 0
        for file in range(len(self._rows)):
            for portion in self._rows.portions(file, self._definition.read_columns):
                count = portion.rows.num_rows
                found = newest.candidates(portion.rows, self._definition)
                found = found.append_column(_FILE, pa.array(np.full(count, file, np.int32)))
                waiting.append(
                    found.append_column(_ROW, pa.array(np.arange(portion.first, portion.first + count, dtype=np.int64)))
                )
                number += count
                self._on_portion(count)
                if number >= max(WINNOW_ROWS, 0 if best is None else best.num_rows):
                    best, waiting, number = self._newest([*([best] if best is not None else []), *waiting]), [], 0
        parts = [*([best] if best is not None else []), *waiting]
        return self._newest(parts) if parts else self._no_candidates()

    def _no_candidates(self) -> pa.Table:
        empty = pa.schema([self._held.schema.field(name) for name in self._definition.read_columns]).empty_table()
        found = newest.candidates(empty, self._definition)
        return found.append_column(_FILE, pa.array([], pa.int32())).append_column(_ROW, pa.array([], pa.int64()))

    def _newest(self, parts: Iterable[pa.Table]) -> pa.Table:
        rows = pa.concat_tables(parts).combine_chunks()
        return newest.newest(rows, len(self._definition.key), len(self._definition.order))

    def _whole(self, winners: pa.Table) -> pa.Table:
        """These rows with all columns of the latest table."""
        names = [name for name in self._held.schema.names if name not in (DELETED, BUCKET)]
        winners = winners.sort_by([(_FILE, "ascending"), (_ROW, "ascending")])
        files, numbers = winners[_FILE].to_numpy(), winners[_ROW].to_numpy()
        parts = []
        for file in np.unique(files):
            wanted = numbers[files == file]
            for portion in self._rows.portions(int(file), names):
                here = wanted[(wanted >= portion.first) & (wanted < portion.first + portion.rows.num_rows)]
                if len(here):
                    parts.append(portion.rows.take(pa.array(here - portion.first)))
                self._on_portion(0)
                if len(wanted) and portion.first + portion.rows.num_rows > wanted[-1]:
                    break
        empty = pa.schema([self._held.schema.field(name) for name in names]).empty_table()
        rows = pa.concat_tables([empty, *parts])
        return rows.append_column(DELETED, winners[DELETED]).append_column(BUCKET, winners[BUCKET])

    def _merge(self, bucket: int, news: pa.Table, count: int, wider: int) -> None:
        schema = self._held.schema
        files = self._held.files.get(bucket, [])
        before = row_files.read(self._held.table, files, schema)
        rows = pa.concat_tables([before, news.select(schema.names).cast(schema)]).combine_chunks()
        places = pa.array(np.arange(rows.num_rows))
        best = self._newest([newest.candidates(rows, self._definition).append_column(_PLACE, places)])
        changed = pc.sum(pc.greater_equal(best[_PLACE], before.num_rows)).as_py() or 0
        if not changed and wider == count and len(files) < 2:
            return
        after = rows.take(best[_PLACE])
        self._changed += changed
        self._keys += after.num_rows - sum(each.rows for each in files)
        self._deleted += _number_of(after[DELETED]) - _number_of(before[DELETED])
        self._removed += files
        for target, part in self._split(after, bucket, count, wider):
            self._added.append(row_files.write(self._held.table, target, part))

    def _split(self, rows: pa.Table, bucket: int, count: int, wider: int) -> Iterable[tuple[int, pa.Table]]:
        order = [(name, "ascending") for name in self._definition.key]
        if wider == count:
            yield bucket, rows.sort_by(order)
            return
        where = newest.bucket_of(rows.select(self._definition.key), wider)
        for target in newest.split_bucket(bucket, count, wider):
            part = rows.filter(pc.equal(where, target))
            if part.num_rows:
                yield target, part.sort_by(order)


def _counts(column: pa.ChunkedArray) -> dict[int, int]:
    return {each["values"]: each["counts"] for each in column.value_counts().to_pylist()}


def _number_of(flags: pa.ChunkedArray) -> int:
    return pc.sum(flags).as_py() or 0


def by_bucket(files: Sequence[BucketFile]) -> dict[int, list[BucketFile]]:
    """Group files by bucket."""
    found: dict[int, list[BucketFile]] = {}
    for each in files:
        found.setdefault(each.bucket, []).append(each)
    return found
