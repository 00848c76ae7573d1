"""How many rolled-back messages the tasks of a batch met: the service counts them into its plan and leaves them out.

    partitions (driver)   empties the batch's folder, names it in each stretch
    read (task)           leaves a note where a stretch had any
    commit (driver)       adds them up: what was promised and did not come is these, and what expired

Source and sink meet nowhere but in the checkpoint, so the notes lie there; the folder is named by where the batch ends.
A batch that is tried again makes its notes anew.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from pathlib import Path

import msgspec

from fairlead_ingest.offsets import Offsets

FOLDER = "fairlead-hidden"


class _Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic: str
    hidden: int


def folder_of(checkpoint: Path, end: Offsets) -> Path:
    """Where the notes of the batch that ends at ``end`` lie."""
    return checkpoint / FOLDER / hashlib.sha256(msgspec.json.encode(end.to_dict())).hexdigest()[:32]


def prepare(checkpoint: Path, end: Offsets) -> Path:
    """The batch's folder, with no notes left of an earlier try or of batches before."""
    shutil.rmtree(checkpoint / FOLDER, ignore_errors=True)
    return folder_of(checkpoint, end)


def note(folder: Path, topic: str, after: str, hidden: int) -> None:
    """Leave a note about the stretch that begins ``after``; a task that is run twice leaves one. Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(f"{topic} {after}".encode()).hexdigest()[:32]
    draft = folder / f".{uuid.uuid4().hex}"
    draft.write_bytes(msgspec.json.encode(_Note(topic=topic, hidden=hidden)))
    os.replace(draft, folder / f"{name}.json")


def counted(folder: Path) -> dict[str, int]:
    """Rolled-back messages by topic."""
    found: dict[str, int] = {}
    for path in sorted(folder.glob("*.json")):
        each = msgspec.json.decode(path.read_bytes(), type=_Note)
        found[each.topic] = found.get(each.topic, 0) + each.hidden
    return found
