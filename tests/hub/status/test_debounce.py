"""What comes and goes within seconds is reported once."""

from __future__ import annotations

import pytest

from fairlead_hub.status.debounce import AWAY_SECONDS, COMING_SECONDS, COUNTS_SECONDS, TIMES_SECONDS, Change, Debounce


@pytest.mark.parametrize(
    ("change", "seconds"),
    [
        ("urgent", 0.0),
        ("came", COMING_SECONDS),
        ("coming", COUNTS_SECONDS),
        ("left", AWAY_SECONDS),
        ("counts", COUNTS_SECONDS),
        ("times", TIMES_SECONDS),
    ],
)
def test_each_change_has_its_time(change: Change, seconds: float) -> None:
    """Counted from the first change that is not written, whatever follows."""
    settling = Debounce()
    assert settling.is_due("edge-1", change, 5.0) is (seconds == 0.0)
    assert not seconds or not settling.is_due("edge-1", change, 5.0 + seconds - 0.1)
    assert settling.due(5.0 + seconds - 0.1) == []
    assert settling.due(5.0 + seconds) == settling.waiting() == ["edge-1"]
    assert settling.is_due("edge-1", change, 5.0 + seconds)


def test_what_changes_back_in_time_is_not_reported_at_all() -> None:
    """A link that was broken for a second; the next break counts from its own beginning."""
    settling = Debounce()
    assert not settling.is_due("edge-1", "left", 0.0)
    settling.done("edge-1")
    assert settling.waiting() == []
    assert not settling.is_due("edge-1", "left", AWAY_SECONDS)
    assert settling.is_due("edge-1", "urgent", AWAY_SECONDS)
