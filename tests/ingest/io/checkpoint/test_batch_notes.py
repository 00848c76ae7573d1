"""Notes that tasks leave beside a batch: messages they could not read, and how long the batch took."""

from __future__ import annotations

import os
from pathlib import Path

from fairlead_ingest.io.checkpoint import batch_notes
from fairlead_ingest.io.checkpoint.batch_notes import UnreadCounts
from fairlead_ingest.source.batch_size import BatchTimes
from fairlead_ingest.source.offsets import Offsets, TopicOffset

END = Offsets(service="s", topics={"a/t": TopicOffset.at(1, "0f")})


def test_notes_of_one_batch_are_added_up(tmp_path):
    """A task that ran twice counts once; without an owner there are no notes."""
    folder = batch_notes.prepare_notes(tmp_path, END)
    assert batch_notes.read_unread(folder) == UnreadCounts()
    batch_notes.note_unread(folder, "a/t", "", 2)
    batch_notes.note_unread(folder, "a/t", "", 3)
    batch_notes.note_unread(folder, "a/t", "0a", 4)
    batch_notes.note_unread(folder, "b/t", "", 1)
    assert batch_notes.read_unread(batch_notes.notes_folder(tmp_path, END)).rolled_back == {"a/t": 7, "b/t": 1}


def test_a_batch_that_is_planned_anew_begins_without_notes(tmp_path):
    """Its ranges may be cut elsewhere now; those of other batches are of no use any more."""
    batch_notes.note_unread(batch_notes.prepare_notes(tmp_path, END), "a/t", "", 2)
    other = Offsets(service="s", topics={"a/t": TopicOffset.at(1, "1f")})
    assert batch_notes.notes_folder(tmp_path, other) != batch_notes.notes_folder(tmp_path, END)
    batch_notes.prepare_notes(tmp_path, other)
    assert batch_notes.read_unread(batch_notes.notes_folder(tmp_path, END)) == UnreadCounts()


def test_a_topic_that_is_gone_is_named(tmp_path):
    folder = batch_notes.prepare_notes(tmp_path, END)
    batch_notes.note_unread(folder, "a/t", "", 2, recreated=True)
    batch_notes.note_unread(folder, "b/t", "", 1)
    assert batch_notes.read_unread(folder) == UnreadCounts(
        rolled_back={"a/t": 2, "b/t": 1}, recreated=frozenset({"a/t"})
    )


def logged(checkpoint: Path, batch: int, seconds: float) -> None:
    for folder, moment in (("offsets", 1_000_000.0), ("commits", 1_000_000.0 + seconds)):
        path = checkpoint / folder / str(batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (moment, moment))


def test_a_batch_took_from_spark_s_first_log_of_it_to_its_last(tmp_path):
    logged(tmp_path, 3, 1.5)
    batch_notes.note_times(tmp_path, 3, END, 0.25)
    assert batch_notes.read_times(tmp_path, END) == BatchTimes(seconds=1.5, work_seconds=0.25)


def test_what_is_not_there_or_broken_is_no_note(tmp_path):
    logged(tmp_path, 3, 1.5)
    assert batch_notes.read_times(tmp_path, END) is None
    batch_notes.note_times(tmp_path, 3, END, 0.25)
    assert batch_notes.read_times(tmp_path, Offsets()) is None
    (tmp_path / "commits" / "3").unlink()
    assert batch_notes.read_times(tmp_path, END) is None
    (batch_notes.notes_folder(tmp_path, END) / batch_notes.TIMES_NAME).write_text('{"batch":')
    assert batch_notes.read_times(tmp_path, END) is None


def test_a_note_that_cannot_be_left_stops_nothing(tmp_path):
    logged(tmp_path, 3, 1.5)
    (tmp_path / batch_notes.NOTES_FOLDER).touch()
    batch_notes.note_times(tmp_path, 3, END, 0.25)
    assert batch_notes.read_times(tmp_path, END) is None


def test_it_is_no_note_of_unread_messages(tmp_path):
    logged(tmp_path, 3, 1.5)
    batch_notes.note_times(tmp_path, 3, END, 0.25)
    assert batch_notes.read_unread(batch_notes.notes_folder(tmp_path, END)) == batch_notes.UnreadCounts()
    batch_notes.prepare_notes(tmp_path, END)
    assert batch_notes.read_times(tmp_path, END) is None
