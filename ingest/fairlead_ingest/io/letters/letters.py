"""Reads the dead letters of a table: which are open, counts by kind, and their payloads in chunks.

Only the identities of all letters are kept in memory, about 150 bytes each. Letters are searched in windows and read in
chunks, so nothing else grows with their number.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from fairlead_ingest.dead_letters import UNKNOWN, LetterSelection
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.table.store_path import Place

CHUNK_ROWS = 10_000
CHUNK_BYTES = 32 * 1024 * 1024
# How many identities are searched for at a time.
WINDOW_ROWS = 100_000
# How many rows of a file are decoded at a time.
_BATCH_ROWS = 500
IDENTITY = ["_topic", "_id"]
_INDEX = ["_topic", "_id", "_published_at", "_batch", "_date"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """Distinct letters, with ``_topic``, ``_id``, ``_published_at``, ``_batch``, ``_date`` and ``code``."""

    letters: pa.Table
    """The open letters of the selection, or all of them."""
    repaired: int
    """How many letters of the selection are marked as repaired."""


def index_letters(
    table_format: TableFormat,
    table: Place,
    selection: LetterSelection,
    *,
    with_repaired: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Index:
    """Index the dead letters of ``table``; empty if there are none. Raises ``Stop``, ``Wait``.

    ``progress`` is called with the number of letters read since the previous call.
    """
    letters = _read(table_format, tables.beside(table, tables.DEAD_LETTERS), selection, progress)
    marks = marked(table_format, table)
    if not letters.num_rows or not marks.num_rows:
        return Index(letters=letters, repaired=0)
    is_repaired = among(letters, marks)
    repaired = pc.sum(is_repaired).as_py() or 0
    left = letters if with_repaired else letters.filter(pc.invert(is_repaired)).combine_chunks()
    return Index(letters=left, repaired=repaired)


def among(letters: pa.Table, marks: pa.Table) -> pa.Array:
    """For each of ``letters`` (in the order of an index), whether ``marks`` names it."""
    found = [pa.array([], pa.bool_())]
    for topic, ids in _by_topic(letters):
        bounds = pc.min_max(ids).as_py()
        is_near = pc.and_(pc.greater_equal(marks["_id"], bounds["min"]), pc.less_equal(marks["_id"], bounds["max"]))
        near = marks.filter(pc.and_(pc.equal(marks["_topic"], topic), is_near))["_id"]
        found.append(pc.is_in(ids, value_set=near.combine_chunks()))
    return pa.concat_arrays(found)


def marked(table_format: TableFormat, table: Place) -> pa.Table:
    """The identities of letters that are marked as repaired."""
    found = table_format.dataset(tables.beside(table, tables.REPAIRS))
    if found is None:
        return tables.REPAIRS_SCHEMA.empty_table().select(IDENTITY)
    return found.to_table(columns=IDENTITY)


def chunks(
    table_format: TableFormat,
    table: Place,
    wanted: pa.Table,
    *,
    rows: int = CHUNK_ROWS,
    size: int = CHUNK_BYTES,
    columns: Collection[str] = tuple(tables.DEAD_LETTERS_SCHEMA.names),
) -> Iterator[pa.Table]:
    """Read the letters ``wanted`` (an index) topic by topic, in chunks of about ``rows`` rows or ``size`` bytes.

    Only ``columns`` are read; the others are null.
    """
    letters = tables.existing(table_format, tables.beside(table, tables.DEAD_LETTERS))
    read = [name for name in columns if name in letters.schema.names]
    waiting: list[pa.Table] = []
    held = count = 0
    for topic, ids in _by_topic(wanted):
        condition = _condition(topic, ids)
        left = _Once(doubled=letters.count_rows(filter=condition) != len(ids))
        for batch in _scan(letters, read, condition):
            part = left.take(batch)
            if not part.num_rows:
                continue
            waiting.append(part)
            count, held = count + part.num_rows, held + part.nbytes
            if count >= rows or held >= size:
                yield _whole(waiting)
                waiting, held, count = [], 0, 0
    if waiting:
        yield _whole(waiting)


def windows(wanted: pa.Table) -> Iterator[pa.Table]:
    """Split the letters ``wanted`` (an index) into parts that are small enough to search for at once."""
    for begin in range(0, wanted.num_rows, WINDOW_ROWS):
        yield wanted.slice(begin, WINDOW_ROWS).combine_chunks()


# --- inside


def _by_topic(wanted: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """The ids of each topic, in windows."""
    for topic in sorted(pc.unique(wanted["_topic"]).to_pylist()):
        for window in windows(wanted.filter(pc.equal(wanted["_topic"], topic))):
            yield topic, window["_id"].combine_chunks()


class _Once:
    """Drops duplicates: two backfills may have written the same letter twice.

    Ids are remembered only if ``doubled`` says that there are duplicates.
    """

    def __init__(self, *, doubled: bool) -> None:
        self._doubled = doubled
        self._taken: set[str] = set()

    def take(self, batch: pa.RecordBatch) -> pa.Table:
        rows = pa.Table.from_batches([batch])
        if not self._doubled:
            return rows
        keep = []
        for name in batch["_id"].to_pylist():
            keep.append(name not in self._taken)
            self._taken.add(name)
        return rows.filter(pa.array(keep, pa.bool_()))


def _condition(topic: str, ids: pa.Array) -> pc.Expression:
    """A filter for these letters; the bounds allow whole files to be skipped."""
    bounds = pc.min_max(ids).as_py()
    return (
        (pc.field("_topic") == topic)
        & (pc.field("_id") >= bounds["min"])
        & (pc.field("_id") <= bounds["max"])
        & pc.field("_id").isin(ids)
    )


def _scan(letters: ds.Dataset, columns: list[str], condition: pc.Expression) -> Iterator[pa.RecordBatch]:
    # Payloads are large, so read at most one file ahead.
    scanner = letters.scanner(
        columns=columns, filter=condition, batch_size=_BATCH_ROWS, batch_readahead=1, fragment_readahead=1
    )
    yield from scanner.to_batches()


def _whole(parts: list[pa.Table]) -> pa.Table:
    """The rows with all current columns, also if the table was written by an older version."""
    rows = pa.concat_tables(parts)
    for field in tables.DEAD_LETTERS_SCHEMA:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(tables.DEAD_LETTERS_SCHEMA.names).cast(tables.DEAD_LETTERS_SCHEMA)


def _read(
    table_format: TableFormat, place: Place, selection: LetterSelection, progress: Callable[[int], None]
) -> pa.Table:
    found = table_format.dataset(place)
    empty = tables.DEAD_LETTERS_SCHEMA.empty_table().select([*_INDEX, "code"])
    if found is None or not set(_INDEX) <= set(found.schema.names):
        return empty
    held = found.schema.names
    scanner = found.scanner(columns=[*_INDEX, *(["code"] if "code" in held else [])], filter=selection.condition)
    batches = []
    for batch in scanner.to_batches():
        batches.append(batch)
        progress(batch.num_rows)
    rows = pa.Table.from_batches(batches, scanner.projected_schema)
    if "code" not in rows.column_names:
        rows = rows.append_column("code", pa.nulls(rows.num_rows, pa.string()))
    return selection.with_codes(_once(_ordered(rows.select(empty.column_names).cast(empty.schema))))


def _once(ordered: pa.Table) -> pa.Table:
    """Drop duplicates, which are adjacent in an ordered table."""
    if ordered.num_rows < 2:
        return ordered
    before, after = ordered.slice(0, ordered.num_rows - 1), ordered.slice(1)
    same = pc.and_(*(pc.equal(before[name].combine_chunks(), after[name].combine_chunks()) for name in IDENTITY))
    if not pc.any(same).as_py():
        return ordered
    return ordered.filter(pa.concat_arrays([pa.array([True]), pc.invert(same)])).combine_chunks()


def _ordered(rows: pa.Table) -> pa.Table:
    return rows.sort_by([("_topic", "ascending"), ("_id", "ascending")]).combine_chunks()


# How many kinds are listed, the most frequent first.
KINDS_MAX = 50
# Small chunks, so that the first lines are printed at once.
_ROWS, _BYTES = 1_000, 8 * 1024 * 1024

Progress = Callable[[int], None]


def _silent(_: int) -> None:
    """Ignore progress."""


def select_letters(
    table_format: TableFormat, table: Place, selection: LetterSelection, state: str, progress: Progress = _silent
) -> pa.Table:
    """The identities of letters that are ``open``, ``repaired`` or ``all``. Raises ``Stop`` if there is no table."""
    tables.existing(table_format, table)
    if state != "repaired":
        found = index_letters(table_format, table, selection, with_repaired=state == "all", progress=progress)
        return found.letters
    whole = index_letters(table_format, table, selection, with_repaired=True, progress=progress).letters
    marks = marked(table_format, table)
    return whole.filter(among(whole, marks)).combine_chunks()


def read_letters(
    table_format: TableFormat,
    table: Place,
    selection: LetterSelection,
    state: str,
    limit: int | None = None,
    progress: Progress = _silent,
) -> Iterator[dict[str, Any]]:
    """The rows of the dead letters' table, topic by topic, limited to the oldest ``limit``.

    ``progress`` is called with the number of letters indexed before the first row is returned.
    """
    wanted = select_letters(table_format, table, selection, state, progress)
    if limit is not None:
        wanted = wanted.take(pc.sort_indices(wanted["_id"]).slice(0, limit)).combine_chunks()
    if not wanted.num_rows:
        return
    for chunk in chunks(table_format, table, wanted, rows=_ROWS, size=_BYTES):
        yield from chunk.to_pylist()


def summary(
    table_format: TableFormat,
    table: Place,
    name: str,
    selection: LetterSelection,
    state: str,
    *,
    progress: Progress = _silent,
    expect: Progress = _silent,
) -> dict[str, Any]:
    """Count letters by topic, code and field, without reading payloads.

    ``expect`` is called with the total once it is known, ``progress`` with the number counted since its last call.
    """
    tables.existing(table_format, table)
    counts = index_letters(table_format, table, selection)
    wanted = counts.letters if state == "open" else select_letters(table_format, table, selection, state)
    kinds: dict[tuple[str, str, str], dict[str, Any]] = {}
    expect(wanted.num_rows)
    for letter in _reasons(table_format, table, wanted, progress):
        code = letter["code"] or UNKNOWN
        for field in letter["fields"] or [""]:
            kind = kinds.setdefault(
                (letter["_topic"], code, field),
                {
                    "topic": letter["_topic"], "code": code, "field": field, "letters": 0,
                    "first": letter["_published_at"], "last": letter["_published_at"],
                    "example": letter["error"] or "",
                },
            )  # fmt: skip
            kind["letters"] += 1
            kind["first"] = min(kind["first"], letter["_published_at"])
            kind["last"] = max(kind["last"], letter["_published_at"])
    most = sorted(kinds.values(), key=lambda kind: (-kind["letters"], kind["topic"], kind["code"], kind["field"]))
    for kind in most:
        kind["first"], kind["last"] = _text(kind["first"]), _text(kind["last"])
    return {
        "name": name,
        "table": str(table),
        "open": counts.letters.num_rows,
        "repaired": counts.repaired,
        "kinds": most[:KINDS_MAX],
        "kinds_left_out": max(0, len(most) - KINDS_MAX),
    }


def _reasons(table_format: TableFormat, table: Place, wanted: pa.Table, progress: Progress) -> Iterator[dict[str, Any]]:
    if not wanted.num_rows:
        return
    names = ["_topic", "_id", "_published_at", "error", "code", "fields"]
    for chunk in chunks(table_format, table, wanted, columns=names):
        yield from chunk.select([name for name in names if name in chunk.column_names]).to_pylist()
        progress(chunk.num_rows)


def _text(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
