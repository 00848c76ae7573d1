"""Delta tables through delta-rs: made here, looked at here, committed to here.

What a commit needs to know of a table (last batch, positions, commit sequence) comes from its own log: from our newest
commit that the current version is made of (``history``). Where the newest commits are not ours (a delete, say) the log
is read further back; if it no longer reaches that far, or others replaced the content, the rows say how far they go.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from fairlead_ingest import errors
from fairlead_ingest.io.table import table_format
from fairlead_ingest.io.table.files import PARTITION_COLUMNS, PartitionedFiles, WrittenFile, sync
from fairlead_ingest.io.table.table_format import Size
from fairlead_ingest.source.offsets import Offsets
from fairlead_ingest.table import commit, commit_info, history
from fairlead_ingest.table.commit import Append, Collided, TableState
from fairlead_ingest.table.commit_info import CommitInfo, LogEntry, Totals

LOG = "_delta_log"
_DIGITS = 20
# Two of ours rarely lie further apart than this many commits of others.
HISTORY_NEAR = 20
# A job commits every second, and opening a table lists its log: 100,000 entries cost 100 ms, four times a batch.
CONFIGURATION = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 6 hours",
    "delta.enableExpiredLogCleanup": "true",
}


def ensure(table: Path, schema: pa.Schema) -> None:
    """Make ``table`` if it is not there; let it grow by columns it lacks. Raises ``Stop`` where types clash."""
    existing = _open(table)
    if existing is None:
        if (table / table_format.COMMITS).is_dir():
            raise errors.Stop(errors.TABLE_UNFIT, f'{table}: a table of plain Parquet files; the job wants "delta"')
        table.parent.mkdir(parents=True, exist_ok=True)
        DeltaTable.create(
            str(table),
            Schema.from_arrow(schema),
            mode="ignore",
            partition_by=list(PARTITION_COLUMNS),
            configuration=CONFIGURATION,
        )
        return
    missing = table_format.missing_columns(table, existing.schema(), schema)
    if list(existing.metadata().partition_columns) != list(PARTITION_COLUMNS):
        raise errors.Stop(errors.TABLE_UNFIT, f"{table}: not partitioned by {', '.join(PARTITION_COLUMNS)}")
    if missing:
        existing.alter.add_columns(missing)


def writing(table: Path) -> PartitionedFiles:
    """Files in their place at once: readers of Delta see what the log names, and nothing else."""
    return PartitionedFiles(table)


def state(table: Path, application: str) -> TableState:
    """What the table's log says now; nothing where there is no table."""
    found = _open(table)
    if found is None:
        return TableState()
    batch = found.transaction_version(application)
    newest, is_cut = _newest(found)
    return TableState(
        batch=-1 if batch is None else batch,
        reached=_reached(found, newest),
        commit_sequence=found.transaction_version(commit.COMMIT_SEQUENCE) or 0,
        totals=Totals() if newest is None else newest.totals,
        is_cut=is_cut and batch is not None,
    )


def reached(table: Path) -> Offsets:
    """How far the table goes per topic; nowhere where there is none."""
    found = _open(table)
    return Offsets() if found is None else _reached(found, _newest(found)[0])


def highest_ids(table: Path) -> dict[str, str]:
    """By topic, the highest id that the statistics of its files say."""
    found = _open(table)
    actions = None if found is None else pa.table(found.get_add_actions(flatten=True))
    if actions is None or not {"max._id", "partition._topic"} <= set(actions.column_names):
        return {}
    highest = (
        actions.select(["max._id", "partition._topic"]).group_by("partition._topic").aggregate([("max._id", "max")])
    )
    topics, ids = (highest[name].to_pylist() for name in ("partition._topic", "max._id_max"))
    return {topic: last for topic, last in zip(topics, ids, strict=True) if last is not None}


def append(table: Path, files: Sequence[WrittenFile], decided: Append) -> None:
    """Commit ``files`` with what was decided, durably. Raises ``Collided``, ``Stop``, ``Wait``."""
    target = DeltaTable(str(table))
    # From here on the log itself sees who else commits; what came between deciding and now it would not see.
    if not decided.follows(target.transaction_version(commit.COMMIT_SEQUENCE) or 0):
        raise Collided(f"{table}: another writer has committed since")
    now_ms = int(time.time() * 1000)
    properties = CommitProperties(
        custom_metadata=decided.metadata,
        app_transactions=[Transaction(name, number) for name, number in sorted(decided.transactions.items())],
    )
    actions: list[AddAction | RemoveAction] = [
        AddAction(
            path=file.path,
            size=file.size,
            partition_values={"_topic": file.topic, "_date": file.date},
            modification_time=now_ms,
            data_change=True,
            stats=json.dumps(
                {"numRecords": file.rows, "minValues": file.minimum, "maxValues": file.maximum, "nullCount": {}}
            ),
        )
        for file in files
    ]
    for folder in {(table / file.path).parent for file in files}:
        sync(folder)
    try:
        target.create_write_transaction(
            actions,
            "append",
            target.schema(),
            list(PARTITION_COLUMNS),
            commit_properties=properties,
        )
    except CommitFailedError as error:
        raise Collided(f"{table}: another writer committed at the same moment ({error})") from error
    except DeltaError as error:
        if "No space left" in str(error):
            raise errors.Wait(errors.DISK_FULL, f"{table}: {error}") from error
        raise
    # Ours is among these; whatever else came meanwhile may as well be on disk.
    before = target.version()
    target.update_incremental()
    for version in range(before + 1, target.version() + 1):
        sync(table / LOG / f"{version:0{_DIGITS}}.json")
    sync(table / LOG)


def last_entries(table: Path, limit: int) -> list[LogEntry]:
    """The newest commits of the table, newest first; empty where there is no table."""
    found = _open(table)
    return [
        LogEntry(version=entry["version"], timestamp_ms=entry["timestamp"], info=commit_info.read(entry))
        for entry in (() if found is None else found.history(limit))
    ]


def version(table: Path) -> int | None:
    """The newest commit, None where there is no table."""
    found = _open(table)
    return None if found is None else found.version()


def size(table: Path) -> Size | None:
    """What the log says is in the table, None where there is none."""
    found = _open(table)
    if found is None:
        return None
    actions = pa.table(found.get_add_actions(flatten=True))
    return Size(
        version=found.version(),
        files=actions.num_rows,
        rows=pc.sum(actions["num_records"]).as_py() or 0,
        bytes=pc.sum(actions["size_bytes"]).as_py() or 0,
    )


def files(table: Path) -> list[tuple[str, str]]:
    """(path, topic) of every file, oldest first."""
    found = _open(table)
    if found is None:
        return []
    actions = pa.table(found.get_add_actions(flatten=True)).select(["path", "partition._topic"])
    # The log quotes the names it finds on disk.
    return [(unquote(path), topic) for path, topic in zip(*(column.to_pylist() for column in actions), strict=True)]


def dataset(table: Path) -> ds.Dataset | None:
    """The rows of the newest version, None where there is no table."""
    found = _open(table)
    if found is None:
        return None
    if not found.file_uris():
        # A dataset of no files has no schema of its own.
        return ds.dataset(pa.schema(found.schema().to_arrow()).empty_table())
    return found.to_pyarrow_dataset()


def vacuum(table: Path, *, retention_hours: int, dry_run: bool) -> list[str]:
    """Delete files no version inside the retention needs, those of killed tasks included; their paths."""
    found = _open(table)
    if found is None:
        return []
    return found.vacuum(retention_hours=retention_hours, dry_run=dry_run, enforce_retention_duration=False, full=True)


def _open(table: Path) -> DeltaTable | None:
    try:
        return DeltaTable(str(table))
    except TableNotFoundError:
        return None


def _reached(table: DeltaTable, newest: CommitInfo | None) -> Offsets:
    if newest is not None:
        return newest.reached
    return table_format.reached_by_rows(table.to_pyarrow_dataset()) if table.file_uris() else Offsets()


def _newest(table: DeltaTable) -> tuple[CommitInfo | None, bool]:
    """What our newest commit in the current version's line says, None for none; whether the log was cut before it."""
    entries: list[dict[str, Any]] = []
    for limit in (1, HISTORY_NEAR, None):
        entries = table.history(limit)
        found = history.newest(entries)
        if found.info is not None or found.is_replaced:
            return found.info, False
        if limit is not None and len(entries) < limit:
            break
    return None, bool(entries) and entries[-1]["version"] > 0
