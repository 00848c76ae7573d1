"""Commits to a Delta table: all of it or nothing, durable when it returns."""

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
    """Files in their place at once: readers of Delta see what the log names, and nothing else."""
    return PartitionedFiles(table)


def append(table: Place, files: Sequence[WrittenFile], decided: Append) -> None:
    """Commit ``files`` with what was decided, durably. Raises ``Collided``, ``Stop``, ``Wait``."""
    is_numbered = decided.info is not None
    if not is_numbered and isinstance(table, StorePath):
        delta_table.open_table(table)  # brought up to date: nothing was decided by what it was
    target = delta_table.when_decided(table)
    # From here on the log itself sees who else commits; what came between deciding and now it would not see.
    with delta_table.explained(table):
        follows = decided.follows(log_reader.sequence(table, target))
    if not follows:
        raise Collided(f"{table}: another writer has committed since")
    now_ms = int(time.time() * 1000)
    properties = CommitProperties(
        custom_metadata=decided.metadata,
        # Tried once by delta-rs where it has no number: the first try may stand, see ``_stands``.
        max_commit_retries=None if is_numbered or isinstance(table, Path) else 0,
        app_transactions=[Transaction(name, number) for name, number in sorted(decided.transactions.items())],
    )
    actions: Actions = [_added(file, now_ms, data_change=True) for file in files]
    if isinstance(table, Path):
        _append_to_folder(table, target, files, actions, properties)
    else:
        _append_to_store(table, target, actions, properties, None if is_numbered else files)


def replace(table: Place, target: DeltaTable, gone: Sequence[tuple[str, int]], files: Sequence[WrittenFile]) -> None:
    """Commit ``files`` in the place of ``gone`` (path and size, of one partition), which hold the same rows.

    As the version after ``target``'s or not at all: further on the library does not see who else took the same files
    out. Raises ``Collided`` where it is not known to stand, ``Stop``, ``Wait``.
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
    # Ours is among these; whatever else came meanwhile may as well be on disk.
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
    """Whatever goes wrong, the commit may stand: the answer alone can be lost.  Nothing is assumed; we look again."""
    try:
        _commit(target, actions, properties, _after_commit(target))
    except (DeltaError, OSError) as error:
        delta_table.forget(table)
        explained = object_store.explain(table, error)
        if isinstance(explained, errors.Stop):
            raise explained from error
        if unnumbered and _stands(table, target.version(), unnumbered):
            return
        raise Collided(
            f"{table}: another writer was first, or the store's answer is missing ({explained})",
            unanswered=None if isinstance(error, CommitFailedError) else explained,
        ) from error


def _stands(table: StorePath, before: int, files: Sequence[WrittenFile]) -> bool:
    """A commit since version ``before`` names these files.  Raises ``Stop``, ``Wait``: then it is not known.

    A batch is known by its number.  These are known by their names alone, and a compaction may have put others in their
    place by now: added once more, their rows would be there twice.
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
    """delta-rs lists the log after each commit, to tidy it; near a checkpoint alone there is something to tidy."""
    is_near = (target.version() + 2) % STORE_CHECKPOINT_COMMITS <= 1
    return PostCommitHookProperties(create_checkpoint=is_near, cleanup_expired_logs=is_near)
