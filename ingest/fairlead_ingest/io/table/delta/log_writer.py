"""Commits to a Delta table, atomically and durably."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from fairlead_ingest import errors
from fairlead_ingest.io.table import object_store
from fairlead_ingest.io.table.delta import delta_table, log_reader
from fairlead_ingest.io.table.delta.delta_table import STORE_CHECKPOINT_COMMITS
from fairlead_ingest.io.table.delta.log_reader import DIGITS, LOG
from fairlead_ingest.io.table.files import PARTITION_COLUMNS, PartitionedFiles, WrittenFile, sync, sync_all
from fairlead_ingest.table.commit import Append, Collided
from fairlead_ingest.table.store_path import Place, StorePath

_NO_ROOM: Final = "No space left"
Actions = list[AddAction | RemoveAction]


def writing(table: Place) -> PartitionedFiles:
    """A writer of new files, at their final paths; readers of Delta see only files that the log names."""
    return PartitionedFiles(table)


def append(table: Place, files: Sequence[WrittenFile], decided: Append) -> None:
    """Commit ``files`` as decided, durably. Raises ``Collided``, ``Stop``, ``Wait``."""
    is_numbered = decided.info is not None
    if not is_numbered and isinstance(table, StorePath):
        delta_table.open_table(table)  # update it: nothing was decided from the open version
    target = delta_table.when_decided(table)
    # The log detects commits after this version, but not those between the decision and now.
    with delta_table.explained(table):
        follows = decided.follows(log_reader.sequence(table, target))
    if not follows:
        raise Collided(f"{table}: another writer has committed since")
    now_ms = int(time.time() * 1000)
    properties = CommitProperties(
        custom_metadata=decided.metadata,
        # Without a number, let delta-rs try only once: that try may have succeeded, see ``_is_committed``.
        max_commit_retries=None if is_numbered or isinstance(table, Path) else 0,
        app_transactions=[Transaction(name, number) for name, number in sorted(decided.transactions.items())],
    )
    actions: Actions = [_added(file, now_ms, data_change=True) for file in files]
    if isinstance(table, Path):
        _append_to_folder(table, target, files, actions, properties)
    else:
        _append_to_store(table, target, actions, properties, None if is_numbered else files)


def replace(table: Place, target: DeltaTable, gone: Sequence[tuple[str, int]], files: Sequence[WrittenFile]) -> None:
    """Commit ``files`` in place of ``gone`` (path and size, in one partition), which hold the same rows.

    Commits only as the version after ``target``'s, because a rebase by the library would not notice that others removed
    the same files. Raises ``Collided`` if it may have failed, ``Stop``, ``Wait``.
    """
    now_ms = int(time.time() * 1000)
    partition: dict[str, str | None] = {"_topic": files[0].topic, "_date": files[0].date}
    actions: Actions = [_added(file, now_ms, data_change=False) for file in files]
    actions += [
        RemoveAction(path=path, size=size, partition_values=partition, data_change=False, deletion_timestamp=now_ms)
        for path, size in gone
    ]
    properties = CommitProperties(max_commit_retries=0)
    if isinstance(table, Path):
        _append_to_folder(table, target, files, actions, properties)
    else:
        _append_to_store(table, target, actions, properties, None)


def _added(file: WrittenFile, now_ms: int, *, data_change: bool) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values={"_topic": file.topic, "_date": file.date},
        modification_time=now_ms,
        data_change=data_change,
        stats=json.dumps(
            {"numRecords": file.rows, "minValues": file.minimum, "maxValues": file.maximum, "nullCount": {}}
        ),
    )


def _append_to_folder(
    table: Path, target: DeltaTable, files: Sequence[WrittenFile], actions: Actions, properties: CommitProperties
) -> None:
    sync_all({(table / file.path).parent for file in files})
    try:
        _commit(target, actions, properties)
    except CommitFailedError as error:
        raise Collided(f"{table}: another writer committed at the same moment ({error})") from error
    except DeltaError as error:
        if _NO_ROOM in str(error):
            raise errors.Wait(errors.DISK_FULL, f"{table}: {error}") from error
        raise
    # Our commit is one of these; syncing those of others does no harm.
    before = target.version()
    target.update_incremental()
    for version in range(before + 1, target.version() + 1):
        sync(table / LOG / f"{version:0{DIGITS}}.json")
    sync(table / LOG)


def _append_to_store(
    table: StorePath,
    target: DeltaTable,
    actions: Actions,
    properties: CommitProperties,
    unnumbered: Sequence[WrittenFile] | None,
) -> None:
    """Commit to a store. After an error, check whether the commit succeeded, as only the answer may be lost."""
    try:
        _commit(target, actions, properties, _after_commit(target))
    except (DeltaError, OSError) as error:
        delta_table.forget(table)
        explained = object_store.explain(table, error)
        if isinstance(explained, errors.Stop):
            raise explained from error
        if unnumbered and _is_committed(table, target.version(), unnumbered):
            return
        raise Collided(
            f"{table}: another writer was first, or the store's answer is missing ({explained})",
            unanswered=None if isinstance(error, CommitFailedError) else explained,
        ) from error


def _is_committed(table: StorePath, before: int, files: Sequence[WrittenFile]) -> bool:
    """Whether a commit since version ``before`` names these files. Raises ``Stop``, ``Wait`` if that is unknown.

    A batch has a number, but these files have only their names. A compaction may have replaced them by now, so looking
    for them in the newest version is not enough: added again, their rows would be duplicates.
    """
    newest = delta_table.open_table(table)
    name = files[0].path.rpartition("/")[2].encode()
    since = range(before + 1, before + 1 if newest is None else newest.version() + 1)
    return any(name in object_store.read(table / LOG / f"{version:0{DIGITS}}.json") for version in since)


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
    """Clean up the log only near a checkpoint; by default delta-rs lists it after each commit."""
    is_near = (target.version() + 2) % STORE_CHECKPOINT_COMMITS <= 1
    return PostCommitHookProperties(create_checkpoint=is_near, cleanup_expired_logs=is_near)
