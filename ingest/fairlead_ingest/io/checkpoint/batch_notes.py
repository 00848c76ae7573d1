"""Notes about a batch that source and sink exchange through the checkpoint, the only place both can reach.

They are in a folder named after the end of the batch. A batch that is tried again writes its notes again.

Unread messages: why planned messages could not be read. The service counts rolled-back messages in its plan but leaves
them out of its pages, and a topic that was deleted and recreated since the plan has no old messages any more. All other
planned messages that are missing have expired.

    partitions (driver)   empties the batch's folder and names it in each partition
    read (task)           writes a note if its range had such messages
    commit (driver)       adds up the notes; the rest of the missing messages have expired

Times: how long the last batch took, used to choose the size of the next one. Losing them does no harm.

    sink, at its commit    writes the number of the batch and how long its tasks worked
    Spark                  writes a file before a batch runs and another when it is done
    source, planning       combines the note with the times of these files
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
    """``rolled_back``: number of messages by topic; ``recreated``: topics that were recreated since the plan."""

    rolled_back: Mapping[str, int] = field(default_factory=dict)
    recreated: frozenset[str] = frozenset()


def notes_folder(checkpoint: Path, end: Offsets) -> Path:
    """The folder for the notes of the batch that ends at ``end``."""
    return checkpoint / NOTES_FOLDER / hashlib.sha256(msgspec.json.encode(end.to_dict())).hexdigest()[:32]


def prepare_notes(checkpoint: Path, end: Offsets) -> Path:
    """Delete the notes of earlier batches and attempts; return the folder of this batch."""
    shutil.rmtree(checkpoint / NOTES_FOLDER, ignore_errors=True)
    return notes_folder(checkpoint, end)


def note_unread(folder: Path, topic: str, after: str, hidden: int = 0, *, recreated: bool = False) -> None:
    """Write the note of the range that begins ``after``; a repeated task overwrites it. Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(f"{topic} {after}".encode()).hexdigest()[:32]
    draft = folder / f".{uuid.uuid4().hex}"
    draft.write_bytes(msgspec.json.encode(_UnreadNote(topic=topic, hidden=hidden, recreated=recreated)))
    os.replace(draft, folder / f"{name}.json")


def read_unread(folder: Path) -> UnreadCounts:
    """Add up the notes of a batch."""
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
    """Note the times of a committed batch that ends at ``end``. Never raises, because the batch does not need them."""
    folder = notes_folder(checkpoint, end)
    draft = folder / f".{uuid.uuid4().hex}"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(msgspec.json.encode(_TimesNote(batch=batch, work_seconds=work_seconds)))
        os.replace(draft, folder / TIMES_NAME)


def read_times(checkpoint: Path, end: Offsets) -> BatchTimes | None:
    """The times of the batch that ended at ``end``; None if there is no note or Spark's files are gone."""
    try:
        left = msgspec.json.decode((notes_folder(checkpoint, end) / TIMES_NAME).read_bytes(), type=_TimesNote)
        # Both times come from the clock of the disk, which need not be this machine's.
        began, ended = ((checkpoint / folder / str(left.batch)).stat().st_mtime for folder in ("offsets", "commits"))
    except (OSError, msgspec.DecodeError):
        return None
    return BatchTimes(seconds=ended - began, work_seconds=left.work_seconds)
