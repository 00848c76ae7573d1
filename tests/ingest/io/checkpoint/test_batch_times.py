"""What a batch took, from the sink to the next plan."""

from __future__ import annotations

import os
from pathlib import Path

from fairlead_ingest.io.checkpoint import batch_notes
from fairlead_ingest.source.batch_size import BatchTimes
from fairlead_ingest.source.offsets import Offsets, TopicOffset

END = Offsets(service="s", topics={"a/b": TopicOffset.at(1, "0f")})


def logged(checkpoint: Path, batch: int, seconds: float) -> None:
    """As Spark leaves a batch that took so long."""
    for folder, moment in (("offsets", 1_000_000.0), ("commits", 1_000_000.0 + seconds)):
        path = checkpoint / folder / str(batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (moment, moment))


def test_a_batch_took_from_spark_s_first_log_of_it_to_its_last(tmp_path: Path) -> None:
    """Both by the disk's clock; the sink says how long its tasks worked."""
    logged(tmp_path, 3, 1.5)
    batch_notes.note_times(tmp_path, 3, END, 0.25)
    assert batch_notes.read_times(tmp_path, END) == BatchTimes(seconds=1.5, work_seconds=0.25)


def test_what_is_not_there_or_broken_is_no_note(tmp_path: Path) -> None:
    """Another batch's note, half a note, none; files that Spark has tidied away."""
    logged(tmp_path, 3, 1.5)
    assert batch_notes.read_times(tmp_path, END) is None
    batch_notes.note_times(tmp_path, 3, END, 0.25)
    assert batch_notes.read_times(tmp_path, Offsets()) is None
    (tmp_path / "commits" / "3").unlink()
    assert batch_notes.read_times(tmp_path, END) is None
    (batch_notes.notes_folder(tmp_path, END) / batch_notes.TIMES_NAME).write_text('{"batch":')
    assert batch_notes.read_times(tmp_path, END) is None


def test_a_note_that_cannot_be_left_stops_nothing(tmp_path: Path) -> None:
    """The folder is a file."""
    logged(tmp_path, 3, 1.5)
    (tmp_path / batch_notes.NOTES_FOLDER).touch()
    batch_notes.note_times(tmp_path, 3, END, 0.25)
    assert batch_notes.read_times(tmp_path, END) is None


def test_it_is_no_note_of_unread_messages(tmp_path: Path) -> None:
    """Both lie in one folder, and go together."""
    logged(tmp_path, 3, 1.5)
    batch_notes.note_times(tmp_path, 3, END, 0.25)
    assert batch_notes.read_unread(batch_notes.notes_folder(tmp_path, END)) == batch_notes.UnreadCounts()
    batch_notes.prepare_notes(tmp_path, END)
    assert batch_notes.read_times(tmp_path, END) is None
