"""Reads from a table's log what a commit must know: last batch, positions, commit sequence.

They are in our newest commit that the current version is based on (``table.commit``). If the newest commits are not
ours (a delete, for example), the log is read further back. If it does not go back that far, or others replaced the
contents, the positions are derived from the rows.

In a store, each entry is one small object that is read once. delta-rs' ``history`` would request all entries each time,
and holds Python's global lock while it waits, so that a slow store would block the whole process.
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
"""How many entries to cache; they never change. An entry of a job with 500 topics takes 180 KB."""


class _StoreLogLine(msgspec.Struct):
    commit_info: dict[str, Any] | None = msgspec.field(name="commitInfo", default=None)


_line = msgspec.json.Decoder(_StoreLogLine)


def store_entries(table: StorePath, table_id: str, version: int) -> Iterator[dict[str, Any]]:
    """The log entries from ``version`` backwards, as ``DeltaTable.history`` returns them, until the log's beginning.

    ``table_id`` comes from the table's metadata and tells a recreated table apart. Raises ``Wait``, ``Stop``.
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
        raise errors.Stop(errors.TABLE_UNFIT, f"{path}: not an entry of a Delta log: {error}") from None
    return {"timestamp": 0, "operation": "", **found}


# Two commits of ours are rarely more than this many commits of others apart.
HISTORY_NEAR = 20


def state(table: Place, application: str) -> TableState:
    """The current state from the table's log; an empty state if there is no table."""
    found = delta_table.open_table(table)
    if found is None:
        return TableState()
    with delta_table.explained(table):
        newest, is_cut, is_latest = _newest(table, found)
        # Prefer our commit: finding a transaction in the log takes a request for each commit since its checkpoint.
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
    """The table's position in each topic; empty if there is no table."""
    found = delta_table.open_table(table)
    return Offsets() if found is None else _reached(table, found, _newest(table, found)[0])


def last_entries(table: Place, limit: int) -> list[LogEntry]:
    """The last commits of the table, newest first; empty if there is no table."""
    found = delta_table.open_table(table)
    return [
        LogEntry(version=entry["version"], timestamp_ms=entry["timestamp"], info=commit_info.read_commit_info(entry))
        for entry in (() if found is None else _entries(table, found, limit))
    ]


def version(table: Place) -> int | None:
    """The number of the newest version, None if there is no table."""
    found = delta_table.open_table(table)
    return None if found is None else found.version()


def sequence(table: Place, found: DeltaTable) -> int:
    """How many commits of ours the open version has."""
    newest, _, is_latest = _newest(table, found)
    if is_latest and newest is not None and newest.sequence:
        return newest.sequence
    return found.transaction_version(commit.COMMIT_SEQUENCE) or 0


def _reached(place: Place, table: DeltaTable, newest: CommitInfo | None) -> Offsets:
    if newest is not None:
        return newest.reached
    return table_format.reached_by_rows(delta_table.rows(place, table)) if table.file_uris() else Offsets()


def _entries(table: Place, found: DeltaTable, limit: int | None) -> list[dict[str, Any]]:
    """The last entries of the log, newest first."""
    if isinstance(table, Path):
        return found.history(limit)
    return list(islice(store_entries(table, str(found.metadata().id), found.version()), limit))


def _newest(table: Place, found: DeltaTable) -> tuple[CommitInfo | None, bool, bool]:
    """Our newest commit that the current version is based on, or None; whether the log was truncated before it; whether
    it is the newest commit of all."""
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
    """The same in a store, with one request for each entry that is needed."""
    looked_at: list[int] = []

    def entries() -> Iterator[dict[str, Any]]:
        for entry in store_entries(table, str(found.metadata().id), found.version()):
            looked_at.append(entry["version"])
            yield entry

    said = commit.newest(entries())
    if said.info is not None or said.is_replaced:
        return said.info, False, len(looked_at) == 1
    return None, bool(looked_at) and looked_at[-1] > 0, False
