"""A long batch is reported each ten seconds, a short one never."""

from __future__ import annotations

from fairlead_ingest.pipeline.events import ProgressLog


def test_a_long_batch_is_logged_each_ten_seconds() -> None:
    """With the seconds since it began."""
    progress = ProgressLog()
    assert [progress.due(now, batch=3, at_work=True) for now in (100.0, 105.0, 110.0, 111.0, 125.0)] == [
        None, None, 10.0, None, 25.0,
    ]  # fmt: skip


def test_the_next_batch_begins_anew() -> None:
    """And so does work after a pause."""
    progress = ProgressLog()
    progress.due(0.0, batch=1, at_work=True)
    assert progress.due(9.0, batch=2, at_work=True) is None
    assert progress.due(18.0, batch=2, at_work=True) is None
    assert progress.due(19.0, batch=2, at_work=True) == 10.0
    assert progress.due(20.0, batch=2, at_work=False) is None
    assert progress.due(40.0, batch=2, at_work=True) is None
