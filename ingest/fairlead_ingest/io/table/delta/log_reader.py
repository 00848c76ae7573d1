"""What a commit needs to know of a table (last batch, positions, commit sequence), from the table's own log: from our
newest commit that the current version is made of (``table.commit``).

Where the newest commits are not ours (a delete, say) the log is read further back; if it no longer reaches that far, or
others replaced the content, the rows say how far they go.

In a store each entry is one small object and is read once. delta-rs has the same as ``history``; but that asks the
store for all of them each time, and holds Python's lock while it waits, so that with a slow store nothing else in the
process goes on, health and stop included.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
from deltalake import DeltaTable

from fairlead_ingest import errors
from fairlead_ingest.io.table import object_store, table_format
from fairlead_ingest.io.table.delta import delta_table
from fairlead_ingest.source.offsets import Offsets
from fairlead_ingest.table import commit, commit_info
from fairlead_ingest.table.commit import TableState
from fairlead_ingest.table.commit_info import CommitInfo, LogEntry, TableTotals
from fairlead_ingest.table.store_path import Place, StorePath

LOG: Final = "_delta_log"
DIGITS: Final = 20
KEPT: Final = 128
"""Entries remembered; none of them ever changes. One of a job with 500 topics takes 180 KB."""


class _StoreLogLine(msgspec.Struct):
    commit_info: dict[str, Any] | None = msgspec.field(name="commitInfo", default=None)


_line = msgspec.json.Decoder(_StoreLogLine)


def store_entries(table: StorePath, table_id: str, version: int) -> Iterator[dict[str, Any]]:
    """From ``version`` back, as ``DeltaTable.history`` has them; ends where the log was cut.

    Raises ``Wait``, ``Stop``.
    ``table_id``: of its metadata, so that a table which was made anew is another one.
    """
    for each in range(version, -1, -1):
        found = _store_entry(table, table_id, each)
        if found is None:
            return
        yield {**found, "version": each}


@lru_cache(maxsize=KEPT)
def _store_entry(table: StorePath, table_id: str, version: int) -> dict[str, Any] | None:
    path = table / LOG / f"{version:0{DIGITS}}.json"
    try:
        content = object_store.read(path)
    except errors.Stop as error:
        if error.code == errors.TABLE_UNFIT:
            return None
        raise
    try:
        found = next((info for each in content.splitlines() if (info := _line.decode(each).commit_info)), {})
    except msgspec.DecodeError as error:
        raise errors.Stop(errors.TABLE_UNFIT, f"{path}: no entry of a Delta log: {error}") from None
    return {"timestamp": 0, "operation": "", **found}


# Two of ours rarely lie further apart than this many commits of others.
HISTORY_NEAR = 20


def state(table: Place, application: str) -> TableState:
    """What the table's log says now; nothing where there is no table."""
    found = delta_table.open_table(table)
    if found is None:
        return TableState()
    with delta_table.explained(table):
        newest, is_cut, is_latest = _newest(table, found)
        # The log's own account of transactions is read back to its last checkpoint, at a request for each commit.
        if is_latest and newest is not None and newest.sequence and newest.application == application:
            batch: int | None = newest.batch
            sequence: int | None = newest.sequence
        else:
            batch, sequence = found.transaction_version(application), found.transaction_version(commit.COMMIT_SEQUENCE)
        return TableState(
            batch=-1 if batch is None else batch,
            reached=_reached(table, found, newest),
            commit_sequence=sequence or 0,
            totals=TableTotals() if newest is None else newest.totals,
            is_cut=is_cut and batch is not None,
        )


def reached(table: Place) -> Offsets:
    """How far the table goes per topic; nowhere where there is none."""
    found = delta_table.open_table(table)
    return Offsets() if found is None else _reached(table, found, _newest(table, found)[0])


def last_entries(table: Place, limit: int) -> list[LogEntry]:
    """The newest commits of the table, newest first; empty where there is no table."""
    found = delta_table.open_table(table)
    return [
        LogEntry(version=entry["version"], timestamp_ms=entry["timestamp"], info=commit_info.read_commit_info(entry))
        for entry in (() if found is None else _entries(table, found, limit))
    ]


def version(table: Place) -> int | None:
    """The newest commit, None where there is no table."""
    found = delta_table.open_table(table)
    return None if found is None else found.version()


def sequence(table: Place, found: DeltaTable) -> int:
    """How many batches of ours the table has, as of the version that is open."""
    newest, _, is_latest = _newest(table, found)
    if is_latest and newest is not None and newest.sequence:
        return newest.sequence
    return found.transaction_version(commit.COMMIT_SEQUENCE) or 0


def _reached(place: Place, table: DeltaTable, newest: CommitInfo | None) -> Offsets:
    if newest is not None:
        return newest.reached
    return table_format.reached_by_rows(delta_table.rows(place, table)) if table.file_uris() else Offsets()


def _entries(table: Place, found: DeltaTable, limit: int | None) -> list[dict[str, Any]]:
    """Of the log, newest first."""
    if isinstance(table, Path):
        return found.history(limit)
    return list(islice(store_entries(table, str(found.metadata().id), found.version()), limit))


def _newest(table: Place, found: DeltaTable) -> tuple[CommitInfo | None, bool, bool]:
    """What our newest commit in the current version's line says, None for none; whether the log was cut before it;
    whether it is the newest of all."""
    if isinstance(table, StorePath):
        return _newest_in_store(table, found)
    entries: list[dict[str, Any]] = []
    for limit in (1, HISTORY_NEAR, None):
        entries = _entries(table, found, limit)
        said = commit.newest(entries)
        if said.info is not None or said.is_replaced:
            return said.info, False, limit == 1
        if limit is not None and len(entries) < limit:
            break
    return None, bool(entries) and entries[-1]["version"] > 0, False


def _newest_in_store(table: StorePath, found: DeltaTable) -> tuple[CommitInfo | None, bool, bool]:
    """The same, at a request for each entry that has to be looked at, and no more."""
    looked_at: list[int] = []

    def entries() -> Iterator[dict[str, Any]]:
        for entry in store_entries(table, str(found.metadata().id), found.version()):
            looked_at.append(entry["version"])
            yield entry

    said = commit.newest(entries())
    if said.info is not None or said.is_replaced:
        return said.info, False, len(looked_at) == 1
    return None, bool(looked_at) and looked_at[-1] > 0, False
