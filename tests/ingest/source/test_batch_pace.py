"""Batches that take as long as asked, however fast rows and however slow commits are."""

from __future__ import annotations

import pytest

from fairlead_ingest.source import batch_size
from fairlead_ingest.source.batch_size import BatchPace, BatchTimes, Used


def times(rows: int, *, fixed: float, per_second: float) -> BatchTimes:
    return BatchTimes(seconds=fixed + rows / per_second, work_seconds=rows / per_second)


def settled(pace: BatchPace, *, fixed: float, per_second: float, batches: int = 12) -> BatchPace:
    for _ in range(batches):
        pace = pace.after(pace.rows, times(pace.rows, fixed=fixed, per_second=per_second))
    return pace


@pytest.mark.parametrize("per_second", [5_000, 40_000, 200_000, 2_000_000])
def test_a_batch_takes_the_seconds_asked_for_whatever_the_rate(per_second: float) -> None:
    """From the first guess, up or down."""
    pace = settled(BatchPace(seconds=1.0, rows=batch_size.START_ROWS), fixed=0.2, per_second=per_second)
    assert times(pace.rows, fixed=0.2, per_second=per_second).seconds == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("fixed", [0.5, 2.0, 10.0])
def test_slow_commits_make_longer_batches_and_rows_take_most_of_the_time(fixed: float) -> None:
    """A second would be over before a row is read."""
    pace = settled(BatchPace(seconds=1.0, rows=batch_size.START_ROWS), fixed=fixed, per_second=50_000, batches=20)
    assert times(pace.rows, fixed=fixed, per_second=50_000).seconds == pytest.approx(
        batch_size.FIXED_TIMES_MIN * fixed, rel=0.01
    )


def test_a_rate_that_falls_or_rises_is_followed() -> None:
    """At once downwards, by doubling upwards."""
    fast = settled(BatchPace(seconds=1.0, rows=batch_size.START_ROWS), fixed=0.2, per_second=200_000)
    slow = fast.after(fast.rows, times(fast.rows, fixed=0.2, per_second=20_000))
    assert slow.rows == pytest.approx(16_000, rel=0.01)
    again = slow.after(slow.rows, times(slow.rows, fixed=0.2, per_second=200_000))
    assert again.rows == 2 * slow.rows
    assert settled(again, fixed=0.2, per_second=200_000).rows == pytest.approx(fast.rows, rel=0.01)


def test_a_batch_of_live_messages_alone_says_nothing() -> None:
    """Most of its time is what any batch takes."""
    pace = BatchPace(seconds=1.0, rows=100_000)
    assert pace.after(10, BatchTimes(seconds=0.4, work_seconds=0.1)) == pace
    assert pace.after(0, BatchTimes(seconds=0.4, work_seconds=0.0)) == pace


@pytest.mark.parametrize(("seconds", "work"), [(-5.0, 0.5), (0.0, 0.0), (3600.0, 0.5), (1.0, -3.0), (0.2, 5.0)])
def test_clocks_that_jump_leave_a_batch_of_some_size(seconds: float, work: float) -> None:
    """Notes may come from machines whose clocks were set meanwhile."""
    pace = BatchPace(seconds=1.0, rows=batch_size.START_ROWS).after(
        50_000, BatchTimes(seconds=seconds, work_seconds=work)
    )
    assert batch_size.ROWS_MIN <= pace.rows <= 2 * batch_size.START_ROWS


@pytest.mark.parametrize(
    ("live_rows", "live_more", "seconds_ago", "backlog", "expected"),
    [
        (5, False, 1.0, True, True),
        (0, False, 59.0, True, True),
        (0, False, 60.0, True, False),
        (0, False, None, True, False),
        (5, True, 1.0, True, False),
        (5, False, 1.0, False, False),
    ],
)
def test_live_topics_stand_beside_a_backlog(
    live_rows: int, live_more: bool, seconds_ago: float | None, backlog: bool, expected: bool
) -> None:
    """One is up to date and had messages lately, another has more than a batch takes."""
    used = {
        "live": Used(rows=live_rows, size_bytes=0, has_more=live_more),
        "backlog": Used(rows=9, size_bytes=0, has_more=backlog),
    }
    had_rows = {} if seconds_ago is None else {"live": 100.0 - seconds_ago}
    assert batch_size.is_live_beside_backlog(used, had_rows, 100.0) is expected
