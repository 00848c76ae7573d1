"""Brings a latest table up to the newest version of its rows; repeating it gives the same result. Also its status.

open ─▶ decide (``latest.mark``) ─▶ fold ─▶ commit ─▶ done
 ▲                                            │ another writer was first, or no answer
 └────────────────────────────────────────────┘
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from fairlead_ingest import errors
from fairlead_ingest.io.latest import fold, latest_table, row_files
from fairlead_ingest.io.latest.fold import Fold, LatestFiles
from fairlead_ingest.io.latest.latest_table import LatestState
from fairlead_ingest.io.latest.row_files import FileGone, RowFiles
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.delta import delta_table
from fairlead_ingest.latest import mark
from fairlead_ingest.latest import mark as marks
from fairlead_ingest.latest.definition import OWN, LatestDefinition
from fairlead_ingest.latest.mark import ChangeEntry, Current, Mark, Partition, Rebuild, RowFile
from fairlead_ingest.table import store_path
from fairlead_ingest.table.commit import Collided
from fairlead_ingest.table.store_path import Place

TRIES_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """A refreshed table. ``changed`` is the number of keys with another row; ``reason`` says why it was rebuilt."""

    mark: Mark
    changed: int = 0
    rows_read: int = 0
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsVersion:
    """One open version of the rows table."""

    place: Place
    opened: DeltaTable
    id: str
    version: int
    schema: pa.Schema
    stamps: dict[int, str] = field(default_factory=dict)

    def entry(self, version: int) -> ChangeEntry | None:
        """A log entry; the stamp of the newest one is kept for ``stamp``."""
        found = row_files.entry(self.place, version)
        if found is not None and version == self.version:
            self.stamps[version] = found.stamp
        return found

    def stamp(self) -> str:
        """The stamp of this version's log entry; empty if the log was truncated."""
        return self.stamps.get(self.version) or row_files.stamp(self.place, self.version) or ""

    def files(self) -> list[RowFile]:
        """All files of this version."""
        with delta_table.explained(self.place):
            actions = pa.table(self.opened.get_add_actions(flatten=True))
        names = [name for name in actions.column_names if name.startswith("partition.")]
        found = []
        for each in actions.select(["path", *names]).to_pylist():
            values = sorted((name.removeprefix("partition."), each[name]) for name in names)
            partition = tuple((name, None if value is None else str(value)) for name, value in values)
            found.append(mark.row_file(each["path"], partition, str(self.place)))
        return found


class Counter:
    """Counts the rows read and passes the total to ``on_rows``."""

    def __init__(self, on_rows: Callable[[int], None]) -> None:
        self.rows = 0
        self._on_rows = on_rows

    def __call__(self, rows: int) -> None:
        self.rows += rows
        self._on_rows(self.rows)


def refresh(
    rows: Place,
    table: Place,
    definition: LatestDefinition,
    *,
    rebuild: bool = False,
    on_rows: Callable[[int], None] = lambda _: None,
) -> Refreshed | None:
    """Bring ``table`` up to ``rows``; None if there are no rows yet. ``rebuild``: build it from all rows.

    ``on_rows`` is called with the number of rows read so far; it may raise to cancel. Raises ``Stop``, ``Wait``.
    """
    begun, away = time.monotonic(), None
    for _ in range(TRIES_MAX):
        source = open_source(rows)
        if source is None:
            return None
        definition.check(source.schema)
        state = latest_table.ensure(table, definition.kept(source.schema))
        if state is None:
            continue
        counter = Counter(on_rows)
        try:
            found = _once(source, table, state, definition, counter, rebuild=rebuild)
        except FileGone:
            # This version was the newest a moment ago; a vacuum with a short retention or a restore deleted its files.
            away = errors.Wait(errors.TABLE_TAKEN, f"{rows}: files are deleted while they are read")
            continue
        except Collided as error:
            away = error.unanswered or errors.Wait(errors.TABLE_TAKEN, f"{table}: other jobs keep committing to it")
            continue
        return replace(found, rows_read=counter.rows, seconds=time.monotonic() - begun)
    raise away or errors.Wait(errors.TABLE_TAKEN, f"{table}: it keeps being created and deleted")


def open_source(rows: Place) -> RowsVersion | None:
    """The newest version of the rows. Raises ``Stop``, ``Wait``."""
    found = delta_table.open_table(rows)
    if found is None:
        return None
    with delta_table.explained(rows):
        return RowsVersion(
            place=rows,
            opened=found,
            id=str(found.metadata().id),
            version=found.version(),
            schema=pa.schema(found.schema().to_arrow()),
        )


def _once(
    source: RowsVersion,
    table: Place,
    state: LatestState,
    definition: LatestDefinition,
    counter: Counter,
    *,
    rebuild: bool,
) -> Refreshed:
    mark = state.mark
    stamp = None if mark is None or mark.version > source.version else row_files.stamp(source.place, mark.version)
    decided = marks.decide(
        mark, source=source.id, version=source.version, stamp=stamp, definition=definition.fingerprint
    )
    if rebuild:
        decided = Rebuild(reason="requested")
    if isinstance(decided, Current):
        assert mark is not None
        return Refreshed(mark=mark)
    files: list[RowFile] | Rebuild = (
        decided if isinstance(decided, Rebuild) else _news(source, table, state, decided.after)
    )
    reason = files.reason if isinstance(files, Rebuild) else ""
    held = LatestFiles(table=table, schema=state.schema)
    if not isinstance(files, Rebuild):
        assert mark is not None
        keys = sum(each.rows for each in state.files)
        held = replace(held, files=fold.by_bucket(state.files), count=mark.buckets, keys=keys)
    wanted = source.files() if isinstance(files, Rebuild) else files
    columns = _with_former(source.schema, state.schema)
    folded = Fold(RowFiles(source.place, wanted, columns), held, definition, counter).run()
    new = Mark(
        source=source.id,
        version=source.version,
        definition=definition.fingerprint,
        stamp=source.stamp(),
        keys=held.keys + folded.keys,
        deleted=folded.deleted + (0 if reason or mark is None else mark.deleted),
        buckets=folded.count,
        sequence=1 + (state.opened.transaction_version(marks.SEQUENCE) or 0 if mark is None else mark.sequence),
    )
    latest_table.commit(table, state, new, folded.added, state.files if reason else folded.removed)
    return Refreshed(mark=new, changed=folded.changed, reason=reason)


def _with_former(rows: pa.Schema, latest: pa.Schema) -> pa.Schema:
    """The rows' schema with columns that the latest table has from former rows; they are null now."""
    former = [field for field in latest if field.name not in rows.names and field.name not in OWN]
    return pa.schema([*rows, *former])


def _news(source: RowsVersion, table: Place, state: LatestState, after: int) -> list[RowFile] | Rebuild:
    """The files with rows added since version ``after``, or the reason why the table must be rebuilt."""
    entries = []
    for version in range(after + 1, source.version + 1):
        entry = source.entry(version)
        if entry is None:
            return Rebuild(reason=f"the log of the rows no longer has version {version}")
        entries.append(entry)
    found = mark.outstanding(entries, str(source.place))
    # A log entry may omit the partition of a removed file.
    if () in found.reduced or found.reduced & _partitions(table, state):
        return Rebuild(reason="rows were deleted, changed or restored in partitions with newest rows")
    return found.files


def _partitions(table: Place, state: LatestState) -> frozenset[Partition]:
    """The partitions that the rows of the latest table come from."""
    names = ("_date", "_topic")
    schema = pa.schema([state.schema.field(name) for name in names])
    found: set[Partition] = set()
    for file in state.files:
        rows = row_files.read(table, [file], schema)
        for each in rows.group_by(list(names)).aggregate([]).to_pylist():
            found.add((("_date", each["_date"].isoformat()), ("_topic", each["_topic"])))
    return frozenset(found)


# Each entry is a file or a request; a table further behind has new rows in any case.
_LOOKED_AT_MAX = 20


def _behind(source: RowsVersion, version: int) -> int:
    """How many versions after ``version`` changed rows; a compaction leaves nothing to do."""
    after = range(version + 1, source.version + 1)
    if len(after) > _LOOKED_AT_MAX:
        return len(after)
    entries = map(source.entry, after)
    return sum(entry is None or any(each.data_change for each in (*entry.added, *entry.removed)) for entry in entries)


def latest_status(rows: Place, now: datetime.datetime) -> dict[str, Any]:
    """The state of a latest table as plain values. Raises ``Stop``, ``Wait``."""
    place = tables.beside(rows, store_path.LATEST)
    state = latest_table.open_state(place)
    if state is None:
        return {"table": str(place), "state": "no table yet"}
    source = open_source(rows)
    facts: dict[str, Any] = {
        "table": str(place),
        "state": "ok",
        "version": state.version,
        "files": len(state.files),
        "bytes": sum(each.size for each in state.files),
    }
    if state.marked is None or source is None or state.marked.mark.source != source.id:
        # Others changed it, or the rows table was recreated: the next refresh rebuilds it.
        return {**facts, "state": "to be built"}
    mark = state.marked.mark
    moment = datetime.datetime.fromtimestamp(state.marked.timestamp_ms / 1000, datetime.UTC)
    return {
        **facts,
        "keys": mark.keys - mark.deleted,
        "deleted_keys": mark.deleted,
        "rows_version": mark.version,
        "versions_behind": _behind(source, mark.version),
        "last_refresh": moment.isoformat(timespec="milliseconds"),
        "last_refresh_seconds": round((now - moment).total_seconds(), 3),
    }
