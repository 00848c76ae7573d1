"""Delta tables through delta-rs: made here, looked at here, committed to here.

Three tables belong together: the rows, ``<table>_dead_letters`` and ``<table>_gaps``. What a commit needs to know of a
table (last batch, positions, turns) comes from its own log; where the newest commits are not ours (somebody's delete,
say) the log is read further back, and if it no longer reaches that far, the rows themselves say how far they go.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from fairlead_ingest import commit, errors, offsets
from fairlead_ingest.commit import Append, TableState
from fairlead_ingest.envelope import TIMESTAMP
from fairlead_ingest.io.files import PARTITION_COLUMNS, PartitionedFiles, WrittenFile
from fairlead_ingest.offsets import Offsets, Position

DEAD_LETTERS = "_dead_letters"
GAPS = "_gaps"
# Two of ours rarely lie further apart than this many commits of others.
HISTORY_NEAR = 20
CONFIGURATION = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 7 days",
    "delta.enableExpiredLogCleanup": "true",
}
DEAD_LETTERS_SCHEMA = pa.schema(
    [
        ("error", pa.string()),
        ("payload", pa.binary()),
        ("_topic", pa.string()),
        ("_id", pa.string()),
        ("_published_at", TIMESTAMP),
        ("_ingested_at", TIMESTAMP),
        ("_batch", pa.int64()),
        ("_date", pa.date32()),
    ]
)
GAPS_SCHEMA = pa.schema(
    [
        ("reason", pa.string()),
        ("from_generation", pa.int64()),
        ("from_position", pa.string()),
        ("to_generation", pa.int64()),
        ("to_position", pa.string()),
        ("rows", pa.int64()),
        ("_topic", pa.string()),
        ("_ingested_at", TIMESTAMP),
        ("_batch", pa.int64()),
        ("_date", pa.date32()),
    ]
)


def beside(table: Path, suffix: str) -> Path:
    """The path of a table's companion."""
    return table.with_name(table.name + suffix)


def ensure(table: Path, schema: pa.Schema) -> None:
    """Make ``table`` if it is not there; let it grow by columns it lacks. Raises ``Stop`` where types clash."""
    try:
        existing = DeltaTable(str(table))
    except TableNotFoundError:
        table.parent.mkdir(parents=True, exist_ok=True)
        DeltaTable.create(
            str(table),
            Schema.from_arrow(schema),
            mode="ignore",
            partition_by=list(PARTITION_COLUMNS),
            configuration=CONFIGURATION,
        )
        return
    wanted = {field.name: field for field in Schema.from_arrow(schema).fields}
    held = {field.name: field for field in existing.schema().fields}
    clashes = [name for name in wanted if name in held and held[name].type != wanted[name].type]
    if clashes:
        name = clashes[0]
        raise errors.Stop(
            errors.TABLE_UNFIT,
            f"{table}: column {name} is {held[name].type} in the table and {wanted[name].type} in the job;"
            " columns are only ever added",
        )
    if list(existing.metadata().partition_columns) != list(PARTITION_COLUMNS):
        raise errors.Stop(errors.TABLE_UNFIT, f"{table}: not partitioned by {', '.join(PARTITION_COLUMNS)}")
    missing = [wanted[name] for name in wanted if name not in held]
    if missing:
        existing.alter.add_columns(missing)


def state(table: Path, application: str, topics: Iterable[str]) -> TableState:
    """What the table's log says now."""
    found = DeltaTable(str(table))
    batch = found.transaction_version(application)
    turns = {topic: found.transaction_version(commit.turn_id(topic)) or 0 for topic in topics}
    newest = _newest(found)
    return TableState(
        batch=-1 if batch is None else batch,
        reached=_reached_by_rows(found) if newest is None else offsets.parse(newest["reached"]),
        turns=turns,
        totals={} if newest is None else newest.get("totals", {}),
    )


def reached(table: DeltaTable) -> Offsets:
    """How far the table goes per topic."""
    newest = _newest(table)
    return _reached_by_rows(table) if newest is None else offsets.parse(newest["reached"])


def append(table: Path, files: Sequence[WrittenFile], decided: Append) -> int:
    """Commit ``files`` with the transactions and metadata decided; the version made. Raises ``Stop``, ``Wait``."""
    target = DeltaTable(str(table))
    now_ms = int(time.time() * 1000)
    properties = CommitProperties(
        custom_metadata=decided.metadata,
        app_transactions=[Transaction(name, turn) for name, turn in sorted(decided.transactions.items())],
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
    try:
        target.create_write_transaction(
            actions,
            "append",
            target.schema(),
            list(PARTITION_COLUMNS),
            commit_properties=properties,
        )
    except CommitFailedError as error:
        raise errors.Stop(
            errors.TABLE_TAKEN, f"{table}: another job committed the same topic at the same moment ({error})"
        ) from error
    except DeltaError as error:
        if "No space left" in str(error):
            raise errors.Wait(errors.DISK_FULL, f"{table}: {error}") from error
        raise
    target.update_incremental()
    return target.version()


def add(table: Path, files: Sequence[WrittenFile]) -> int:
    """Commit files that belong to no batch of a stream (a backfill's); positions stay as they are."""
    return append(table, files, Append(transactions={}, metadata={}))


def count(table: Path) -> int:
    """Rows in the table, from its log alone."""
    numbers = pa.table(DeltaTable(str(table)).get_add_actions(flatten=True))["num_records"]
    return pc.sum(numbers).as_py() or 0


def identities(table: Path, from_ms: int | None, until_ms: int | None) -> pa.Table:
    """(topic, id) of what is there, published from (inclusive) until (exclusive) these milliseconds since 1970."""
    found = DeltaTable(str(table))
    if not found.file_uris():
        return pa.table({"_topic": pa.array([], pa.string()), "_id": pa.array([], pa.string())})
    condition = pc.scalar(True)
    for bound, compare in ((from_ms, pc.greater_equal), (until_ms, pc.less)):
        if bound is not None:
            condition = condition & compare(pc.field("_published_at"), pa.scalar(bound * 1000, TIMESTAMP))
    return found.to_pyarrow_dataset().to_table(columns=["_topic", "_id"], filter=condition)


def append_gaps(table: Path, rows: pa.Table, decided: Append) -> None:
    """Write and commit gap rows; few enough for the driver."""
    files = PartitionedFiles(table)
    files.add(rows)
    append(table, files.close(), decided)


def last_entries(table: Path, limit: int) -> list[Mapping[str, Any]]:
    """The newest commits of the table, newest first; empty where there is no table."""
    try:
        return list(DeltaTable(str(table)).history(limit))
    except TableNotFoundError:
        return []


def _newest(table: DeltaTable) -> Mapping[str, Any] | None:
    """What our newest commit says, None where the log holds none."""
    for limit in (1, HISTORY_NEAR, None):
        entries = table.history(limit)
        for entry in entries:
            ours = commit.ours_in(entry)
            if ours is not None:
                return ours
        if limit is not None and len(entries) < limit:
            break
    return None


def _reached_by_rows(table: DeltaTable) -> Offsets:
    """The highest id per topic: what was read beyond it held no good row, so going on there repeats none."""
    rows = table.to_pyarrow_dataset().to_table(columns=["_topic", "_id"]) if table.file_uris() else None
    if rows is None or not rows.num_rows:
        return Offsets()
    highest = rows.group_by("_topic").aggregate([("_id", "max")])
    names, ids = highest["_topic"], pc.cast(highest["_id_max"], pa.string())
    return Offsets(
        topics={name: Position.at(0, last) for name, last in zip(names.to_pylist(), ids.to_pylist(), strict=True)}
    )
