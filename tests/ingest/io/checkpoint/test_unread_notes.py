"""Notes from tasks to the commit."""

from __future__ import annotations

from pathlib import Path

from fairlead_ingest.io.checkpoint import batch_notes
from fairlead_ingest.io.checkpoint.batch_notes import UnreadCounts
from fairlead_ingest.source.offsets import Offsets, TopicOffset

END = Offsets(service="s", topics={"a/t": TopicOffset.at(1, "0f")})


def test_notes_of_one_batch_are_added_up(tmp_path: Path) -> None:
    """A task that ran twice counts once; without an owner there are no notes."""
    folder = batch_notes.prepare_notes(tmp_path, END)
    assert batch_notes.read_unread(folder) == UnreadCounts()
    batch_notes.note_unread(folder, "a/t", "", 2)
    batch_notes.note_unread(folder, "a/t", "", 3)
    batch_notes.note_unread(folder, "a/t", "0a", 4)
    batch_notes.note_unread(folder, "b/t", "", 1)
    assert batch_notes.read_unread(batch_notes.notes_folder(tmp_path, END)).rolled_back == {"a/t": 7, "b/t": 1}


def test_a_batch_that_is_planned_anew_begins_without_notes(tmp_path: Path) -> None:
    """Its ranges may be cut elsewhere now; those of other batches are of no use any more."""
    batch_notes.note_unread(batch_notes.prepare_notes(tmp_path, END), "a/t", "", 2)
    other = Offsets(service="s", topics={"a/t": TopicOffset.at(1, "1f")})
    assert batch_notes.notes_folder(tmp_path, other) != batch_notes.notes_folder(tmp_path, END)
    batch_notes.prepare_notes(tmp_path, other)
    assert batch_notes.read_unread(batch_notes.notes_folder(tmp_path, END)) == UnreadCounts()


def test_a_topic_that_is_gone_is_named(tmp_path: Path) -> None:
    """Beside what was rolled back before it went."""
    folder = batch_notes.prepare_notes(tmp_path, END)
    batch_notes.note_unread(folder, "a/t", "", 2, recreated=True)
    batch_notes.note_unread(folder, "b/t", "", 1)
    assert batch_notes.read_unread(folder) == UnreadCounts(
        rolled_back={"a/t": 2, "b/t": 1}, recreated=frozenset({"a/t"})
    )
