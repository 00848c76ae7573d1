"""Brings a latest table to the newest version of its rows, exactly; repeating it gives the same. Also its status.

look ─▶ decide (``latest.mark``) ─▶ fold ─▶ commit ─▶ done
 ▲                                            │ another was first, or no answer
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
    """What the latest table is now. ``changed`` keys have another row; ``reason``: why all rows were read, if so."""

    mark: Mark
    changed: int = 0
    rows_read: int = 0
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsVersion:
    """One version of the rows, open."""

    place: Place
    opened: DeltaTable
    id: str
    version: int
    schema: pa.Schema
    stamps: dict[int, str] = field(default_factory=dict)

    def entry(self, version: int) -> ChangeEntry | None:
        """Of its log; that of the newest version is read once."""
        found = row_files.entry(self.place, version)
        if found is not None and version == self.version:
            self.stamps[version] = found.stamp
        return found

    def stamp(self) -> str:
        """Of the entry of this version; empty where the log was cut."""
        return self.stamps.get(self.version) or row_files.stamp(self.place, self.version) or ""

    def files(self) -> list[RowFile]:
        """All of this version."""
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
    """Of rows read; hands each step on to who watches."""

    def __init__(self, look_up: Callable[[int], None]) -> None:
        self.rows = 0
        self._look_up = look_up

    def __call__(self, rows: int) -> None:
        self.rows += rows
        self._look_up(self.rows)


def refresh(
    rows: Place,
    table: Place,
    definition: LatestDefinition,
    *,
    again: bool = False,
    look_up: Callable[[int], None] = lambda _: None,
) -> Refreshed | None:
    """Bring ``table`` up to ``rows``; None where there are no rows yet. ``again``: from all rows, whatever is there.

    ``look_up`` is called with the rows read so far; it may raise, to give up. Raises ``Stop``, ``Wait``.
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
        counter = Counter(look_up)
        try:
            found = _once(source, table, state, definition, counter, again=again)
        except FileGone:
            # The files of a version that was the newest a moment ago: a vacuum with a short retention, or a restore.
            away = errors.Wait(errors.TABLE_TAKEN, f"{rows}: files disappear while they are read")
            continue
        except Collided as error:
            away = error.unanswered or errors.Wait(errors.TABLE_TAKEN, f"{table}: other jobs commit to it all the time")
            continue
        return replace(found, rows_read=counter.rows, seconds=time.monotonic() - begun)
    raise away or errors.Wait(errors.TABLE_TAKEN, f"{table}: it is made and deleted all the time")


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
    again: bool,
) -> Refreshed:
    mark = state.mark
    stamp = None if mark is None or mark.version > source.version else row_files.stamp(source.place, mark.version)
    decided = marks.decide(
        mark, source=source.id, version=source.version, stamp=stamp, definition=definition.fingerprint
    )
    if again:
        decided = Rebuild(reason="asked for")
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
    """With columns that the latest table has of rows that were there before these: they are null now."""
    former = [field for field in latest if field.name not in rows.names and field.name not in OWN]
    return pa.schema([*rows, *former])


def _news(source: RowsVersion, table: Place, state: LatestState, after: int) -> list[RowFile] | Rebuild:
    """Files with rows that were added since, or why that is not enough."""
    entries = []
    for version in range(after + 1, source.version + 1):
        entry = source.entry(version)
        if entry is None:
            return Rebuild(reason=f"the log of the rows no longer reaches back to version {version}")
        entries.append(entry)
    found = mark.outstanding(entries, str(source.place))
    # A log need not say of a file in which partition it lay.
    if () in found.reduced or found.reduced & _partitions(table, state):
        return Rebuild(reason="rows were deleted, changed or restored where some of the newest lie")
    return found.files


def _partitions(table: Place, state: LatestState) -> frozenset[Partition]:
    """Where the rows of the latest table come from."""
    names = ("_date", "_topic")
    schema = pa.schema([state.schema.field(name) for name in names])
    found: set[Partition] = set()
    for file in state.files:
        rows = row_files.read(table, [file], schema)
        for each in rows.group_by(list(names)).aggregate([]).to_pylist():
            found.add((("_date", each["_date"].isoformat()), ("_topic", each["_topic"])))
    return frozenset(found)


def latest_status(rows: Place, now: datetime.datetime) -> dict[str, Any]:
    """As plain values. Raises ``Stop``, ``Wait``."""
    place = tables.beside(rows, store_path.LATEST)
    state = latest_table.look(place)
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
        # It was changed by others, or the rows were made anew: the next refresh builds it again.
        return {**facts, "state": "to be built"}
    mark = state.marked.mark
    moment = datetime.datetime.fromtimestamp(state.marked.timestamp_ms / 1000, datetime.UTC)
    return {
        **facts,
        "keys": mark.keys - mark.deleted,
        "deleted_keys": mark.deleted,
        "rows_version": mark.version,
        "versions_behind": max(0, source.version - mark.version),
        "last_refresh": moment.isoformat(timespec="milliseconds"),
        "last_refresh_seconds": round((now - moment).total_seconds(), 3),
    }
