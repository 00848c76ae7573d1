"""Why messages that a batch was promised did not come, as its tasks know: rolled back, or of a topic that is gone.

The service counts rolled-back messages into its plan and leaves them out of its pages; of a topic that was deleted and
made again since the plan nothing can be read any more. What else did not come has expired.

    partitions (driver)   empties the batch's folder, names it in each partition
    read (task)           leaves a note where a range had any
    commit (driver)       adds them up: what was promised and did not come is these, and what expired

Source and sink meet nowhere but in the checkpoint, so the notes lie there; the folder is named by where the batch ends.
A batch that is tried again makes its notes again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from fairlead_ingest.source.offsets import Offsets

FOLDER = "fairlead-hidden"


class _UnreadNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic: str
    hidden: int = 0
    recreated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadCounts:
    """``rolled_back``: how many, by topic; ``recreated``: topics whose rest is gone."""

    rolled_back: Mapping[str, int] = field(default_factory=dict)
    recreated: frozenset[str] = frozenset()


def folder_of(checkpoint: Path, end: Offsets) -> Path:
    """Where the notes of the batch that ends at ``end`` lie."""
    return checkpoint / FOLDER / hashlib.sha256(msgspec.json.encode(end.to_dict())).hexdigest()[:32]


def prepare(checkpoint: Path, end: Offsets) -> Path:
    """The batch's folder, with no notes left of an earlier try or of batches before."""
    shutil.rmtree(checkpoint / FOLDER, ignore_errors=True)
    return folder_of(checkpoint, end)


def note(folder: Path, topic: str, after: str, hidden: int = 0, *, recreated: bool = False) -> None:
    """Leave a note about the range that begins ``after``; a task that is run twice leaves one. Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(f"{topic} {after}".encode()).hexdigest()[:32]
    draft = folder / f".{uuid.uuid4().hex}"
    draft.write_bytes(msgspec.json.encode(_UnreadNote(topic=topic, hidden=hidden, recreated=recreated)))
    os.replace(draft, folder / f"{name}.json")


def known(folder: Path) -> UnreadCounts:
    """What the notes say together."""
    rolled_back: dict[str, int] = {}
    recreated = set()
    for path in sorted(folder.glob("*.json")):
        each = msgspec.json.decode(path.read_bytes(), type=_UnreadNote)
        rolled_back[each.topic] = rolled_back.get(each.topic, 0) + each.hidden
        if each.recreated:
            recreated.add(each.topic)
    return UnreadCounts(rolled_back=rolled_back, recreated=frozenset(recreated))
