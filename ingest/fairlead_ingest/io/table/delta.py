"""Delta tables through delta-rs: made here, looked at here, committed to here.

What a commit needs to know of a table (last batch, positions, commit sequence) comes from its own log: from our newest
commit that the current version is made of (``history``). Where the newest commits are not ours (a delete, say) the log
is read further back; if it no longer reaches that far, or others replaced the content, the rows say how far they go.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from fairlead_ingest import errors
from fairlead_ingest.io.table import object_store, store_log, table_format
from fairlead_ingest.io.table.files import PARTITION_COLUMNS, PartitionedFiles, WrittenFile, sync
from fairlead_ingest.io.table.store_log import DIGITS, LOG
from fairlead_ingest.io.table.table_format import Size
from fairlead_ingest.source.offsets import Offsets
from fairlead_ingest.table import commit, commit_info, history
from fairlead_ingest.table.commit import Append, Collided, TableState
from fairlead_ingest.table.commit_info import CommitInfo, LogEntry, Totals
from fairlead_ingest.table.store_path import Place, StorePath

# Two of ours rarely lie further apart than this many commits of others.
HISTORY_NEAR = 20
# A job commits every second, and opening a table lists its log: 100,000 entries cost 100 ms, four times a batch.
CONFIGURATION = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 6 hours",
    "delta.enableExpiredLogCleanup": "true",
}
STORE_CHECKPOINT_COMMITS: Final = 20
"""A checkpoint costs some sixty requests; without one, opening the table asks once for each commit."""
STORE_CONFIGURATION: Final = {**CONFIGURATION, "delta.checkpointInterval": str(STORE_CHECKPOINT_COMMITS)}
"""In a store each commit since the checkpoint is a request of its own for whoever opens the table."""
_NO_ROOM: Final = "No space left"
Actions = list[AddAction | RemoveAction]


class _Kept(threading.local):
    """Tables in stores, open: opening one is a dozen requests and more, bringing it up to date is two or three.

    Of one thread each: who has looked and commits must not be moved on in between. A table is opened anew where the
    options are others, for a file has a new secret, say: an open one goes on with the credentials it began with.
    """

    def __init__(self) -> None:
        self.tables: dict[StorePath, tuple[dict[str, str], DeltaTable]] = {}


_kept = _Kept()


def ensure(table: Place, schema: pa.Schema) -> None:
    """Make ``table`` if it is not there; let it grow by columns it lacks. Raises ``Stop`` where types clash."""
    existing = _open(table)
    if existing is None:
        if isinstance(table, Path):
            if (table / table_format.COMMITS).is_dir():
                raise errors.Stop(errors.TABLE_UNFIT, f'{table}: a table of plain Parquet files; the job wants "delta"')
            table.parent.mkdir(parents=True, exist_ok=True)
        with _explained(table):
            DeltaTable.create(
                str(table),
                Schema.from_arrow(schema),
                mode="ignore",
                partition_by=list(PARTITION_COLUMNS),
                configuration=CONFIGURATION if isinstance(table, Path) else STORE_CONFIGURATION,
                storage_options=_options(table),
            )
        return
    missing = table_format.missing_columns(table, existing.schema(), schema)
    if list(existing.metadata().partition_columns) != list(PARTITION_COLUMNS):
        raise errors.Stop(errors.TABLE_UNFIT, f"{table}: not partitioned by {', '.join(PARTITION_COLUMNS)}")
    if missing:
        with _explained(table):
            existing.alter.add_columns(missing)


def writing(table: Place) -> PartitionedFiles:
    """Files in their place at once: readers of Delta see what the log names, and nothing else."""
    return PartitionedFiles(table)


def state(table: Place, application: str) -> TableState:
    """What the table's log says now; nothing where there is no table."""
    found = _open(table)
    if found is None:
        return TableState()
    with _explained(table):
        newest, is_cut, is_latest = _newest(table, found)
        # The log's own account of transactions is read back to its last checkpoint, at a request for each commit.
        if is_latest and newest is not None and newest.sequence and newest.application == application:
            batch: int | None = newest.batch
            sequence: int | None = newest.sequence
        else:
            batch, sequence = found.transaction_version(application), found.transaction_version(commit.COMMIT_SEQUENCE)
        return TableState(
            batch=-1 if batch is None else batch,
            reached=_reached(found, newest),
            commit_sequence=sequence or 0,
            totals=Totals() if newest is None else newest.totals,
            is_cut=is_cut and batch is not None,
        )


def reached(table: Place) -> Offsets:
    """How far the table goes per topic; nowhere where there is none."""
    found = _open(table)
    return Offsets() if found is None else _reached(found, _newest(table, found)[0])


def highest_ids(table: Place) -> dict[str, str]:
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


def append(table: Place, files: Sequence[WrittenFile], decided: Append) -> None:
    """Commit ``files`` with what was decided, durably. Raises ``Collided``, ``Stop``, ``Wait``."""
    target = _opened_before(table)
    # From here on the log itself sees who else commits; what came between deciding and now it would not see.
    with _explained(table):
        follows = decided.follows(_sequence(table, target))
    if not follows:
        raise Collided(f"{table}: another writer has committed since")
    now_ms = int(time.time() * 1000)
    properties = CommitProperties(
        custom_metadata=decided.metadata,
        app_transactions=[Transaction(name, number) for name, number in sorted(decided.transactions.items())],
    )
    actions: Actions = [
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
    if isinstance(table, Path):
        _append_to_folder(table, target, files, actions, properties)
    else:
        _append_to_store(table, target, actions, properties)


def _append_to_folder(
    table: Path, target: DeltaTable, files: Sequence[WrittenFile], actions: Actions, properties: CommitProperties
) -> None:
    for folder in {(table / file.path).parent for file in files}:
        sync(folder)
    try:
        _commit(target, actions, properties)
    except CommitFailedError as error:
        raise Collided(f"{table}: another writer committed at the same moment ({error})") from error
    except DeltaError as error:
        if _NO_ROOM in str(error):
            raise errors.Wait(errors.DISK_FULL, f"{table}: {error}") from error
        raise
    # Ours is among these; whatever else came meanwhile may as well be on disk.
    before = target.version()
    target.update_incremental()
    for version in range(before + 1, target.version() + 1):
        sync(table / LOG / f"{version:0{DIGITS}}.json")
    sync(table / LOG)


def _append_to_store(table: StorePath, target: DeltaTable, actions: Actions, properties: CommitProperties) -> None:
    """Whatever goes wrong, the commit may stand: the answer alone can be lost.  Nothing is assumed; we look again."""
    try:
        _commit(target, actions, properties, _after_commit(target))
    except (DeltaError, OSError) as error:
        _kept.tables.pop(table, None)
        explained = object_store.explain(table, error)
        if isinstance(explained, errors.Stop):
            raise explained from error
        raise Collided(
            f"{table}: another writer was first, or the store's answer is missing ({explained})",
            unanswered=None if isinstance(error, CommitFailedError) else explained,
        ) from error


def _commit(
    target: DeltaTable,
    actions: Actions,
    properties: CommitProperties,
    hook: PostCommitHookProperties | None = None,
) -> None:
    target.create_write_transaction(
        actions,
        "append",
        target.schema(),
        list(PARTITION_COLUMNS),
        commit_properties=properties,
        post_commithook_properties=hook,
    )


def _after_commit(target: DeltaTable) -> PostCommitHookProperties:
    """delta-rs lists the log after each commit, to tidy it; near a checkpoint alone there is something to tidy."""
    is_near = (target.version() + 2) % STORE_CHECKPOINT_COMMITS <= 1
    return PostCommitHookProperties(create_checkpoint=is_near, cleanup_expired_logs=is_near)


def _opened_before(table: Place) -> DeltaTable:
    """As it was when the commit was decided, where that is known: what came since collides in the log."""
    kept = _kept.tables.get(table) if isinstance(table, StorePath) else None
    found = _open(table) if kept is None else kept[1]
    if found is None:
        raise errors.Stop(errors.TABLE_UNFIT, f"{table}: there is no table here")
    return found


def _sequence(table: Place, found: DeltaTable) -> int:
    """How many batches of ours the table has, as of the version that is open."""
    newest, _, is_latest = _newest(table, found)
    if is_latest and newest is not None and newest.sequence:
        return newest.sequence
    return found.transaction_version(commit.COMMIT_SEQUENCE) or 0


def last_entries(table: Place, limit: int) -> list[LogEntry]:
    """The newest commits of the table, newest first; empty where there is no table."""
    found = _open(table)
    return [
        LogEntry(version=entry["version"], timestamp_ms=entry["timestamp"], info=commit_info.read(entry))
        for entry in (() if found is None else _entries(table, found, limit))
    ]


def version(table: Place) -> int | None:
    """The newest commit, None where there is no table."""
    found = _open(table)
    return None if found is None else found.version()


def size(table: Place) -> Size | None:
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


def files(table: Place) -> list[tuple[str, str]]:
    """(path, topic) of every file, oldest first."""
    found = _open(table)
    if found is None:
        return []
    actions = pa.table(found.get_add_actions(flatten=True)).select(["path", "partition._topic"])
    # The log quotes the names it finds on disk.
    return [(unquote(path), topic) for path, topic in zip(*(column.to_pylist() for column in actions), strict=True)]


def dataset(table: Place) -> ds.Dataset | None:
    """The rows of the newest version, None where there is no table."""
    found = _open(table)
    if found is None:
        return None
    if not found.file_uris():
        # A dataset of no files has no schema of its own.
        return ds.dataset(pa.schema(found.schema().to_arrow()).empty_table())
    return found.to_pyarrow_dataset()


def vacuum(table: Place, *, retention_hours: int, dry_run: bool) -> list[str]:
    """Delete files no version inside the retention needs, those of killed tasks included; their paths."""
    found = _open(table)
    if found is None:
        return []
    with _explained(table):
        return found.vacuum(
            retention_hours=retention_hours, dry_run=dry_run, enforce_retention_duration=False, full=True
        )


def open_table(table: Place) -> DeltaTable | None:
    """The newest version; None where there is no table.  Raises ``Wait``, ``Stop`` where a store cannot be asked."""
    return _open(table)


def _open(table: Place) -> DeltaTable | None:
    if isinstance(table, Path):
        try:
            return DeltaTable(str(table))
        except TableNotFoundError:
            return None
    options = object_store.storage_options(table.storage)
    known, found = _kept.tables.get(table, ({}, None))
    try:
        if found is None or known != options:
            found = DeltaTable(str(table), storage_options=options)
            _kept.tables[table] = options, found
        else:
            found.update_incremental()
    except TableNotFoundError:
        _kept.tables.pop(table, None)
        return None
    except (DeltaError, OSError) as error:
        _kept.tables.pop(table, None)
        raise object_store.explain(table, error) from error
    return found


def _options(table: Place) -> dict[str, str] | None:
    return None if isinstance(table, Path) else object_store.storage_options(table.storage)


@contextmanager
def _explained(table: Place) -> Iterator[None]:
    """What a store answers is said in a sentence of ours."""
    try:
        yield
    except (DeltaError, OSError) as error:
        if isinstance(table, Path):
            raise
        _kept.tables.pop(table, None)
        raise object_store.explain(table, error) from error


def _reached(table: DeltaTable, newest: CommitInfo | None) -> Offsets:
    if newest is not None:
        return newest.reached
    return table_format.reached_by_rows(table.to_pyarrow_dataset()) if table.file_uris() else Offsets()


def _entries(table: Place, found: DeltaTable, limit: int | None) -> list[dict[str, Any]]:
    """Of the log, newest first."""
    if isinstance(table, Path):
        return found.history(limit)
    return list(islice(store_log.entries(table, str(found.metadata().id), found.version()), limit))


def _newest(table: Place, found: DeltaTable) -> tuple[CommitInfo | None, bool, bool]:
    """What our newest commit in the current version's line says, None for none; whether the log was cut before it;
    whether it is the newest of all."""
    if isinstance(table, StorePath):
        return _newest_in_store(table, found)
    entries: list[dict[str, Any]] = []
    for limit in (1, HISTORY_NEAR, None):
        entries = _entries(table, found, limit)
        said = history.newest(entries)
        if said.info is not None or said.is_replaced:
            return said.info, False, limit == 1
        if limit is not None and len(entries) < limit:
            break
    return None, bool(entries) and entries[-1]["version"] > 0, False


def _newest_in_store(table: StorePath, found: DeltaTable) -> tuple[CommitInfo | None, bool, bool]:
    """The same, at a request for each entry that has to be looked at, and no more."""
    looked_at: list[int] = []

    def entries() -> Iterator[dict[str, Any]]:
        for entry in store_log.entries(table, str(found.metadata().id), found.version()):
            looked_at.append(entry["version"])
            yield entry

    said = history.newest(entries())
    if said.info is not None or said.is_replaced:
        return said.info, False, len(looked_at) == 1
    return None, bool(looked_at) and looked_at[-1] > 0, False
