"""Notes about a batch that source and sink leave each other in the checkpoint, the only place where they meet.

They lie in a folder named by where the batch ends. A batch that is tried again makes its notes again.

Unread messages: why messages that a batch was promised did not come, as its tasks know: they were rolled back, or their
topic is gone. The service counts rolled-back messages into its plan and leaves them out of its pages; nothing can be
read any more from a topic that was deleted and recreated since the plan. Everything else that did not come has expired.

    partitions (driver)   empties the batch's folder, names it in each partition
    read (task)           leaves a note where a range had any
    commit (driver)       adds them up: promised messages that did not come are these, and expired ones

Times: how long the last batch took, known when the next is planned. They only say how large the next batch should be;
nothing is lost with them.

    sink, at its commit    leaves which batch it is, and how long its tasks worked
    Spark                  logs a batch before it runs and after it is done: two files with their times
    source, planning       puts both together
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from fairlead_ingest.source.batch_size import BatchTimes
from fairlead_ingest.source.offsets import Offsets

NOTES_FOLDER = "fairlead-hidden"


class _UnreadNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic: str
    hidden: int = 0
    recreated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadCounts:
    """``rolled_back``: how many, by topic; ``recreated``: topics whose rest is gone."""

    rolled_back: Mapping[str, int] = field(default_factory=dict)
    recreated: frozenset[str] = frozenset()


def notes_folder(checkpoint: Path, end: Offsets) -> Path:
    """Where the notes of the batch that ends at ``end`` lie."""
    return checkpoint / NOTES_FOLDER / hashlib.sha256(msgspec.json.encode(end.to_dict())).hexdigest()[:32]


def prepare_notes(checkpoint: Path, end: Offsets) -> Path:
    """The batch's folder, with no notes left of an earlier try or of batches before."""
    shutil.rmtree(checkpoint / NOTES_FOLDER, ignore_errors=True)
    return notes_folder(checkpoint, end)


def note_unread(folder: Path, topic: str, after: str, hidden: int = 0, *, recreated: bool = False) -> None:
    """Leave a note about the range that begins ``after``; a task that is run twice leaves one. Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(f"{topic} {after}".encode()).hexdigest()[:32]
    draft = folder / f".{uuid.uuid4().hex}"
    draft.write_bytes(msgspec.json.encode(_UnreadNote(topic=topic, hidden=hidden, recreated=recreated)))
    os.replace(draft, folder / f"{name}.json")


def read_unread(folder: Path) -> UnreadCounts:
    """What the notes say together."""
    rolled_back: dict[str, int] = {}
    recreated = set()
    for path in sorted(folder.glob("*.json")):
        each = msgspec.json.decode(path.read_bytes(), type=_UnreadNote)
        rolled_back[each.topic] = rolled_back.get(each.topic, 0) + each.hidden
        if each.recreated:
            recreated.add(each.topic)
    return UnreadCounts(rolled_back=rolled_back, recreated=frozenset(recreated))


TIMES_NAME: Final = "times"


class _TimesNote(msgspec.Struct, frozen=True):
    batch: int
    work_seconds: float


def note_times(checkpoint: Path, batch: int, end: Offsets, work_seconds: float) -> None:
    """``batch``, which ends at ``end``, is in the table now. Never raises: a batch is done without it."""
    folder = notes_folder(checkpoint, end)
    draft = folder / f".{uuid.uuid4().hex}"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(msgspec.json.encode(_TimesNote(batch=batch, work_seconds=work_seconds)))
        os.replace(draft, folder / TIMES_NAME)


def read_times(checkpoint: Path, end: Offsets) -> BatchTimes | None:
    """Of the batch that ended at ``end``; None where it left nothing, or Spark's files are gone."""
    try:
        left = msgspec.json.decode((notes_folder(checkpoint, end) / TIMES_NAME).read_bytes(), type=_TimesNote)
        # Both by the clock of the disk, which need not be this machine's.
        began, ended = ((checkpoint / folder / str(left.batch)).stat().st_mtime for folder in ("offsets", "commits"))
    except (OSError, msgspec.DecodeError):
        return None
    return BatchTimes(seconds=ended - began, work_seconds=left.work_seconds)
