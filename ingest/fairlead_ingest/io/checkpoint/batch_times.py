"""How long the last batch took, left by the sink when it has committed, read by the source when it plans the next.

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
from fairlead_ingest.source.batch_pace import BatchTimes
from fairlead_ingest.source.offsets import Offsets

NAME: Final = "times"


def note(checkpoint: Path, batch: int, end: Offsets, work_seconds: float) -> None:
    """``batch``, which ends at ``end``, is in the table now. Never raises: a batch is done without it."""
    folder = unread_notes.folder_of(checkpoint, end)
    draft = folder / f".{uuid.uuid4().hex}"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        draft.touch()
        # Both by the clock of the disk, which need not be this machine's.
        seconds = draft.stat().st_mtime - (checkpoint / "offsets" / str(batch)).stat().st_mtime
        draft.write_bytes(msgspec.json.encode(BatchTimes(seconds=seconds, work_seconds=work_seconds)))
        os.replace(draft, folder / NAME)


def known(checkpoint: Path, end: Offsets) -> BatchTimes | None:
    """Of the batch that ended at ``end``; None where it left none."""
    try:
        return msgspec.json.decode((unread_notes.folder_of(checkpoint, end) / NAME).read_bytes(), type=BatchTimes)
    except (OSError, msgspec.DecodeError):
        return None
