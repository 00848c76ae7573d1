"""What a batch took, from the sink to the next plan."""

from __future__ import annotations

import os
from pathlib import Path

from fairlead_ingest.io.checkpoint import batch_times, unread_notes
from fairlead_ingest.source.offsets import Offsets, TopicOffset

END = Offsets(service="s", topics={"a/b": TopicOffset.at(1, "0f")})


def planned(checkpoint: Path, batch: int) -> Path:
    path = checkpoint / "offsets" / str(batch)
    path.parent.mkdir()
    path.touch()
    return path


def test_a_batch_took_from_spark_s_log_of_it_until_the_note(tmp_path: Path) -> None:
    """Both by the disk's clock."""
    path = planned(tmp_path, 3)
    now = path.stat().st_mtime
    os.utime(path, (now - 100, now - 100))
    batch_times.note(tmp_path, 3, END, 0.25)
    found = batch_times.known(tmp_path, END)
    assert found is not None
    assert found.work_seconds == 0.25
    assert found.seconds >= 100


def test_what_is_not_there_or_broken_is_no_note(tmp_path: Path) -> None:
    """Another batch's note, half a note, none."""
    planned(tmp_path, 3)
    assert batch_times.known(tmp_path, END) is None
    batch_times.note(tmp_path, 3, END, 0.25)
    assert batch_times.known(tmp_path, Offsets()) is None
    (unread_notes.folder_of(tmp_path, END) / batch_times.NAME).write_text('{"seconds":')
    assert batch_times.known(tmp_path, END) is None


def test_a_note_that_cannot_be_left_stops_nothing(tmp_path: Path) -> None:
    """Spark has no log of that batch; the folder is a file."""
    batch_times.note(tmp_path, 4, END, 0.25)
    assert batch_times.known(tmp_path, END) is None
    other = tmp_path / "other"
    planned_in = other / "offsets" / "4"
    planned_in.parent.mkdir(parents=True)
    planned_in.touch()
    (other / unread_notes.FOLDER).touch()
    batch_times.note(other, 4, END, 0.25)
    assert batch_times.known(other, END) is None


def test_it_is_no_note_of_unread_messages(tmp_path: Path) -> None:
    """Both lie in one folder."""
    planned(tmp_path, 3)
    batch_times.note(tmp_path, 3, END, 0.25)
    assert unread_notes.known(unread_notes.folder_of(tmp_path, END)) == unread_notes.Known()
    unread_notes.prepare(tmp_path, END)
    assert batch_times.known(tmp_path, END) is None
