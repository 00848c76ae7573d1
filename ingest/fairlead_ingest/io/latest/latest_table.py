"""The latest table: a Delta table partitioned by bucket. It can be deleted at any time and is then rebuilt.

Each commit replaces the files of the buckets that changed, and records the version of the rows it reflects.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from fairlead_ingest import errors
from fairlead_ingest.io.latest import row_files
from fairlead_ingest.io.latest.row_files import BucketFile
from fairlead_ingest.io.table import object_store, table_format
from fairlead_ingest.io.table.delta import delta_table
from fairlead_ingest.io.table.delta.log_reader import DIGITS, LOG
from fairlead_ingest.io.table.files import sync
from fairlead_ingest.latest import mark as marks
from fairlead_ingest.latest.definition import BUCKET
from fairlead_ingest.latest.mark import Mark, Marked
from fairlead_ingest.table.commit import Collided
from fairlead_ingest.table.store_path import Place

CHECKPOINT_COMMITS: Final = 20
CONFIGURATION: Final = {
    "delta.checkpointInterval": str(CHECKPOINT_COMMITS),
    "delta.logRetentionDuration": "interval 2 hours",
    "delta.enableExpiredLogCleanup": "true",
}
"""A short log: old versions of the newest state are of little use, and every reader reads the whole log."""
MARK_NEAR: Final = 64
"""How many commits back to search for our newest one, below commits of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestState:
    """One version of the table, open."""

    opened: DeltaTable
    version: int
    schema: pa.Schema
    files: list[BucketFile]
    marked: Marked | None

    @property
    def mark(self) -> Mark | None:
        return None if self.marked is None else self.marked.mark


def ensure(table: Place, schema: pa.Schema) -> LatestState | None:
    """Create the table or add missing columns; return its state. Raises ``Stop``, ``Wait``."""
    found = delta_table.open_table(table)
    if found is None:
        if isinstance(table, Path):
            table.parent.mkdir(parents=True, exist_ok=True)
        with delta_table.explained(table):
            DeltaTable.create(
                str(table),
                Schema.from_arrow(schema),
                mode="ignore",
                partition_by=[BUCKET],
                configuration=CONFIGURATION,
                storage_options=delta_table.options(table),
            )
        return open_state(table)
    if list(found.metadata().partition_columns) != [BUCKET]:
        raise errors.Stop(
            errors.TABLE_UNFIT,
            f"{table}: this is not a latest table; move it, or give the rows' table another name",
        )
    try:
        missing = table_format.missing_columns(table, found.schema(), schema)
    except errors.Stop as error:
        remedy = "delete this table, and it will be rebuilt from the rows"
        raise errors.Stop(error.code, f"{str(error).partition(': ')[2]}: {remedy}") from None
    if missing:
        with delta_table.explained(table):
            found.alter.add_columns(missing)
        return open_state(table)
    return _state(table, found)


def open_state(table: Place) -> LatestState | None:
    """The newest version of the table, None if there is no table. Raises ``Stop``, ``Wait``."""
    found = delta_table.open_table(table)
    return None if found is None else _state(table, found)


def _state(table: Place, found: DeltaTable) -> LatestState:
    with delta_table.explained(table):
        actions = pa.table(found.get_add_actions(flatten=True))
        named = zip(*(actions[name].to_pylist() for name in _FILE), strict=True) if actions.num_rows else ()
        return LatestState(
            opened=found,
            version=found.version(),
            schema=pa.schema(found.schema().to_arrow()),
            files=[
                BucketFile(path=unquote(path), bucket=bucket, size=size, rows=rows)
                for path, bucket, size, rows in named
            ],
            marked=newest_mark(table, found.version()),
        )


_FILE: Final = ("path", f"partition.{BUCKET}", "size_bytes", "num_records")


def newest_mark(table: Place, version: int) -> Marked | None:
    """The mark of our newest commit, None if others have changed the table since. Raises ``Stop``, ``Wait``."""
    return marks.newest(islice(row_files.backwards(table, version), MARK_NEAR))


def commit(
    table: Place, state: LatestState, mark: Mark, added: Sequence[BucketFile], removed: Sequence[BucketFile]
) -> None:
    """Commit atomically and durably. Raises ``Collided`` if it may not have succeeded, ``Stop``, ``Wait``."""
    # No retries: delta-rs would rebase the commit onto a compaction that has removed the same files.
    properties = CommitProperties(
        custom_metadata=mark.metadata,
        app_transactions=[Transaction(marks.SEQUENCE, mark.sequence)],
        max_commit_retries=0,
    )
    is_near = (state.version + 2) % CHECKPOINT_COMMITS <= 1
    hook = PostCommitHookProperties(create_checkpoint=is_near, cleanup_expired_logs=is_near)
    if isinstance(table, Path):
        for folder in {(table / each.path).parent for each in added}:
            sync(folder)
            sync(table)
    try:
        state.opened.create_write_transaction(
            _actions(added, removed),
            "append",
            state.opened.schema(),
            [BUCKET],
            commit_properties=properties,
            post_commithook_properties=hook,
        )
    except (DeltaError, OSError) as error:
        raise _unknown(table, error) from error
    if isinstance(table, Path):
        sync(table / LOG / f"{state.version + 1:0{DIGITS}}.json")
        sync(table / LOG)


def vacuum(table: Place, keep_hours: float) -> int:
    """Delete files that no version of the last hours needs, also those of killed jobs; return how many. Raises
    ``Stop``, ``Wait``."""
    found = delta_table.open_table(table)
    if found is None:
        return 0
    with delta_table.explained(table):
        gone = found.vacuum(
            retention_hours=max(1, round(keep_hours)), dry_run=False, enforce_retention_duration=False, full=True
        )
    return len(gone)


def _actions(added: Sequence[BucketFile], removed: Sequence[BucketFile]) -> list[AddAction | RemoveAction]:
    now_ms = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = [
        AddAction(
            path=each.path,
            size=each.size,
            partition_values={BUCKET: str(each.bucket)},
            modification_time=now_ms,
            data_change=True,
            stats=json.dumps({"numRecords": each.rows}),
        )
        for each in added
    ]
    values: dict[str, Any] = {"data_change": True, "deletion_timestamp": now_ms}
    actions += [
        RemoveAction(path=each.path, size=each.size, partition_values={BUCKET: str(each.bucket)}, **values)
        for each in removed
    ]
    return actions


def _unknown(table: Place, error: DeltaError | OSError) -> errors.Stop | errors.Wait | Collided:
    """The error to raise; unless it is ``Stop``, the caller checks whether the commit succeeded after all."""
    if isinstance(error, CommitFailedError):
        return Collided(f"{table}: another writer committed at the same moment ({error})")
    if isinstance(table, Path):
        code, sentence = errors.explain(str(error))
        return errors.Wait(code or errors.TABLE_TAKEN, f"{table}: {sentence}")
    delta_table.forget(table)
    explained = object_store.explain(table, error)
    if isinstance(explained, errors.Stop):
        return explained
    return Collided(f"{table}: the store's answer is missing ({explained})", unanswered=explained)
