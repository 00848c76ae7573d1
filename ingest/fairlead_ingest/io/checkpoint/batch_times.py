"""How long the last batch took, known when the next is planned.

    sink, at its commit    leaves which batch it is, and how long its tasks worked
    Spark                  logs a batch before it runs and after it is done: two files with their times
    source, planning       puts both together

Source and sink meet nowhere but in the checkpoint: the note lies beside those of the batch (``unread_notes``), is named
by where it ends, and goes with them. It only says how large the next batch should be; nothing is lost with it.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path
from typing import Final

import msgspec

from fairlead_ingest.io.checkpoint import unread_notes
from fairlead_ingest.source.batch_size import BatchTimes
from fairlead_ingest.source.offsets import Offsets

NAME: Final = "times"


class _Note(msgspec.Struct, frozen=True):
    batch: int
    work_seconds: float


def note(checkpoint: Path, batch: int, end: Offsets, work_seconds: float) -> None:
    """``batch``, which ends at ``end``, is in the table now. Never raises: a batch is done without it."""
    folder = unread_notes.folder_of(checkpoint, end)
    draft = folder / f".{uuid.uuid4().hex}"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(msgspec.json.encode(_Note(batch=batch, work_seconds=work_seconds)))
        os.replace(draft, folder / NAME)


def known(checkpoint: Path, end: Offsets) -> BatchTimes | None:
    """Of the batch that ended at ``end``; None where it left nothing, or Spark's files are gone."""
    try:
        left = msgspec.json.decode((unread_notes.folder_of(checkpoint, end) / NAME).read_bytes(), type=_Note)
        # Both by the clock of the disk, which need not be this machine's.
        began, ended = ((checkpoint / folder / str(left.batch)).stat().st_mtime for folder in ("offsets", "commits"))
    except (OSError, msgspec.DecodeError):
        return None
    return BatchTimes(seconds=ended - began, work_seconds=left.work_seconds)
