"""The local folder of a query's checkpoint.

A checkpoint that the settings name as a folder is used directly. For one in an object store, each process creates a
temporary folder and fills it from the copy in the store (``checkpoint_mirror``), if the copy matches the table:

    the table holds the copy's batch or expects it next        filled: the same application continues
    the table is ahead, by commits of the copy's own job       empty: a new application continues from the table
    the table is ahead, by a job with another checkpoint       refused: the two jobs would take over from each other
    anything else                                              filled: the start refuses it with the reason
"""

from __future__ import annotations

import datetime
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from fairlead_ingest import errors
from fairlead_ingest.io.checkpoint import checkpoint_mirror, spark_checkpoint
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.pipeline.checkpoint_copy import CheckpointPage
from fairlead_ingest.source.offsets import Offsets
from fairlead_ingest.table import commit
from fairlead_ingest.table.commit import TableState
from fairlead_ingest.table.commit_info import CommitInfo
from fairlead_ingest.table.store_path import Place, StorePath
from fairlead_wire.io import logs

log = logs.get("ingest.checkpoint")
LOCK: Final = "fairlead-lock"
_ENTRIES: Final = 8


class CheckpointFolder:
    """The checkpoint folder of one pipeline, ``path``; ``place`` is its copy in a store, None if there is none."""

    def __init__(self, where: Place, pipeline: str) -> None:
        self.place = where if isinstance(where, StorePath) else None
        self._pipeline = pipeline
        self._lock: int | None = None
        self._is_filled = not isinstance(where, StorePath)
        self.path = self._new(where) if isinstance(where, StorePath) else where

    def fill(self, table_format: TableFormat, table: Place) -> None:
        """Restore the folder from its copy before the first start. Raises ``Wait``, ``Stop``."""
        if self._is_filled or self.place is None:
            return
        page = checkpoint_mirror.page_of(self.place)
        checkpoint_mirror.tidy(page, self.place, datetime.datetime.now(datetime.UTC))
        if page is not None:
            said = {"pipeline": self._pipeline, "checkpoint": str(self.place), "batch": page.batch}
            try:
                checkpoint_mirror.write_texts(page, self.path)
                is_behind = _is_behind(self.path, page, table_format, table, self.place)
                if is_behind or not checkpoint_mirror.restore(page, self.path, self.place):
                    self._empty()
                    log.warning(
                        "checkpoint_restarted",
                        **said,
                        reason=_AHEAD if is_behind else _DAMAGED,
                    )
                else:
                    log.info("checkpoint_restored", **said)
            except BaseException:
                self._empty()
                raise
        self._is_filled = True

    def keep(self, table_format: TableFormat, table: Place) -> None:
        """Copy what Spark wrote after the last batch's commit, so that a start does not repeat that batch."""
        if self.place is None or not self._is_filled:
            return
        last = spark_checkpoint.last_committed(self.path)
        if last is None or last != spark_checkpoint.last_planned(self.path):
            return
        # Do not overwrite the copy if another job has committed to the table since.
        if table_format.state(table, spark_checkpoint.application(self.path)).batch == last:
            checkpoint_mirror.save(self.path, self.place, last)

    def close(self) -> None:
        """Delete the folder if it is temporary."""
        if self._lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = None

    def _empty(self) -> None:
        for each in self.path.iterdir():
            if each.name == LOCK:
                continue
            if each.is_dir():
                shutil.rmtree(each)
            else:
                each.unlink()

    def _new(self, where: StorePath) -> Path:
        prefix = f"fairlead-checkpoint-{hashlib.sha256(str(where).encode()).hexdigest()[:16]}-"
        for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            _remove_left(left)
        path = Path(tempfile.mkdtemp(prefix=prefix))
        self._lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return path


_DAMAGED: Final = "a part of the copy is missing or damaged"
_AHEAD: Final = (
    "the table is ahead of this copy; a new checkpoint continues from the table, and the memory of dedupe_seconds"
    " starts empty"
)


def _remove_left(path: Path) -> None:
    """Delete the folder of a killed process, whose lock is free."""
    try:
        lock = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass
    finally:
        os.close(lock)


def _is_behind(
    checkpoint: Path, page: CheckpointPage, table_format: TableFormat, table: Place, place: StorePath
) -> bool:
    """Whether the copy's own job has committed past the copy's batch: by its query, or by one whose copy it replaced
    (two machines that started at once). Raises ``Stop`` if a job with another checkpoint has."""
    application, batch = spark_checkpoint.application(checkpoint), page.batch
    own = {application, *(spark_checkpoint.application_of(each) for each in page.before)}
    end, before = spark_checkpoint.end_of(checkpoint, batch), None
    if batch > 0 and spark_checkpoint.has(checkpoint, batch - 1):
        before = spark_checkpoint.end_of(checkpoint, batch - 1)
        end = end.since(before)
    state = table_format.state(table, application)
    entries = [entry.info for entry in table_format.last_entries(table, _ENTRIES) if entry.info is not None]
    _refuse_other(entries, own, state, end, batch, table, place)
    if not any(info.application in own or info.checkpoint == str(place) for info in entries):
        return False
    if state.batch > batch:
        return state.holds(end)
    if state.batch == batch and entries[0].application in own and _is_ahead(state, end, of_end=True):
        # Another machine with the same copy planned a longer batch with this number, and committed it first.
        return True
    try:
        commit.decide(state, application=application, batch=batch, end=end, before=before)
    except errors.Stop as error:
        return error.code == errors.TABLE_TAKEN
    return False


def _refuse_other(
    entries: Sequence[CommitInfo],
    own: Collection[str],
    state: TableState,
    end: Offsets,
    batch: int,
    table: Place,
    place: StorePath,
) -> None:
    """Raise ``Stop`` if a job with another checkpoint has committed past this one. If this one started with a new
    checkpoint instead, the two jobs would keep taking over from each other."""
    newest = next((info for info in entries if info.batch >= 0), None)
    if newest is None or newest.application in own or newest.checkpoint in ("", str(place)):
        return
    if _is_ahead(state, end, of_end=state.batch >= batch and state.holds(end)):
        raise errors.Stop(
            errors.TABLE_TAKEN,
            f"{table}: a job with the checkpoint {newest.checkpoint} now fills it, and is ahead of this one, whose"
            f" checkpoint is {place}. Stop one of the two; to let this one take over, give it a new checkpoint (it"
            " continues from the table)",
        )


def _is_ahead(state: TableState, end: Offsets, *, of_end: bool) -> bool:
    return any(commit.is_ahead(state.reached, topic, offset, of_end=of_end) for topic, offset in end.topics.items())
