"""Batches take the time that was asked for, and busy topics get what quiet ones leave."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.settings import BatchLimits, IngestSettings
from fairlead_ingest.source import batch_size
from fairlead_ingest.source.batch_size import BatchPace, BatchTimes, Used
from fairlead_ingest.source.gaps import ON_EXPIRED, ON_RECREATED


def times(rows: int, *, fixed: float, per_second: float) -> BatchTimes:
    return BatchTimes(seconds=fixed + rows / per_second, work_seconds=rows / per_second)


def settled(pace: BatchPace, *, fixed: float, per_second: float, batches: int = 12) -> BatchPace:
    for _ in range(batches):
        pace = pace.after(pace.rows, times(pace.rows, fixed=fixed, per_second=per_second))
    return pace


@pytest.mark.parametrize("per_second", [5_000, 40_000, 200_000, 2_000_000])
def test_a_batch_takes_the_seconds_asked_for_whatever_the_rate(per_second):
    pace = settled(BatchPace(seconds=1.0, rows=batch_size.START_ROWS), fixed=0.2, per_second=per_second)
    assert times(pace.rows, fixed=0.2, per_second=per_second).seconds == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("fixed", [0.5, 2.0, 10.0])
def test_slow_commits_make_longer_batches_and_rows_take_most_of_the_time(fixed):
    pace = settled(BatchPace(seconds=1.0, rows=batch_size.START_ROWS), fixed=fixed, per_second=50_000, batches=20)
    assert times(pace.rows, fixed=fixed, per_second=50_000).seconds == pytest.approx(
        batch_size.FIXED_TIMES_MIN * fixed, rel=0.01
    )


def test_a_rate_that_falls_or_rises_is_followed():
    fast = settled(BatchPace(seconds=1.0, rows=batch_size.START_ROWS), fixed=0.2, per_second=200_000)
    slow = fast.after(fast.rows, times(fast.rows, fixed=0.2, per_second=20_000))
    assert slow.rows == pytest.approx(16_000, rel=0.01)
    again = slow.after(slow.rows, times(slow.rows, fixed=0.2, per_second=200_000))
    assert again.rows == 2 * slow.rows
    assert settled(again, fixed=0.2, per_second=200_000).rows == pytest.approx(fast.rows, rel=0.01)


def test_a_batch_of_live_messages_alone_says_nothing():
    pace = BatchPace(seconds=1.0, rows=100_000)
    assert pace.after(10, BatchTimes(seconds=0.4, work_seconds=0.1)) == pace
    assert pace.after(0, BatchTimes(seconds=0.4, work_seconds=0.0)) == pace


@pytest.mark.parametrize(("seconds", "work"), [(-5.0, 0.5), (0.0, 0.0), (3600.0, 0.5), (1.0, -3.0), (0.2, 5.0)])
def test_clocks_that_jump_leave_a_batch_of_some_size(seconds, work):
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
def test_live_topics_stand_beside_a_backlog(live_rows, live_more, seconds_ago, backlog, expected):
    """One is up to date and had messages lately, another has more than a batch takes."""
    used = {
        "live": Used(rows=live_rows, size_bytes=0, has_more=live_more),
        "backlog": Used(rows=9, size_bytes=0, has_more=backlog),
    }
    had_rows = {} if seconds_ago is None else {"live": 100.0 - seconds_ago}
    assert batch_size.is_live_beside_backlog(used, had_rows, 100.0) is expected


def used(rows: int, *, has_more: bool = False) -> Used:
    return Used(rows=rows, size_bytes=rows * 10, has_more=has_more)


def test_one_busy_topic_gets_what_ninety_nine_quiet_ones_leave():
    topics = {"hot": used(10, has_more=True), **{f"quiet-{number}": used(0) for number in range(99)}}
    assert batch_size.larger_limits(topics, 1000, None) == {"hot": (1000, None)}
    assert batch_size.larger_limits(topics, 1000, 10_000) == {"hot": (1000, 10_000)}


def test_several_share_what_is_left_and_none_loses_its_own():
    topics = {"a": used(100, has_more=True), "b": used(100, has_more=True), "c": used(20)}
    assert batch_size.larger_limits(topics, 300, None) == {"a": (140, None), "b": (140, None)}


def test_a_batch_that_is_full_or_nearly_is_not_planned_again():
    """By rows or by bytes, whichever is first; and nothing is asked where no topic has more."""
    hot = {"hot": used(90, has_more=True)}
    assert batch_size.larger_limits(hot, 100, None) == {}
    assert batch_size.larger_limits(hot, 1000, 900) == {}
    assert batch_size.larger_limits({"hot": used(1)}, 1000, None) == {}
    assert batch_size.larger_limits({}, 1000, None) == {}


def test_without_limits_nothing_is_shared_out():
    assert batch_size.larger_limits({"hot": used(5)}, None, None) == {}


def test_a_batch_that_turns_out_too_large_is_cut_where_there_is_more():
    topics = {"live": used(30), "a": used(500, has_more=True), "b": used(500, has_more=True)}
    assert batch_size.smaller_limits(topics, 130) == {"a": (50, 5000), "b": (50, 5000)}
    assert batch_size.smaller_limits(topics, 20) == {"a": (1, 5000), "b": (1, 5000)}
    assert batch_size.smaller_limits(topics, 1030) == {}
    assert batch_size.smaller_limits(topics, None) == {}


PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "ingest.md"


def test_policies_are_the_same_for_settings_and_options():
    for key, allowed in (("on_expired", ON_EXPIRED), ("on_recreated", ON_RECREATED)):
        field = IngestSettings.model_fields[key]
        assert get_args(field.annotation) == allowed
        assert field.default == allowed[0]


def shown(value: float) -> str:
    mib = 1024 * 1024
    return f"{value // mib} MiB" if isinstance(value, int) and value % mib == 0 else f"{value:g}"


def test_settings_options_and_the_page_have_the_same_defaults():
    options = SourceOptions.of({"url": "http://127.0.0.1:1", "topics": "a/t"})
    settings = BatchLimits()
    assert (settings.batch_rows, settings.batch_bytes) == (options.max_rows_per_batch, options.max_bytes_per_batch)
    assert (settings.page_rows, settings.page_bytes, settings.split_bytes) == (
        options.page_rows,
        options.page_bytes,
        options.split_bytes,
    )
    assert (
        IngestSettings.model_fields["request_seconds"].default == options.request_seconds == batch_size.REQUEST_SECONDS
    )
    row = re.compile(r"^\| (`maxRowsPerBatch`[^|]*|`pageRows`[^|]*) \| ([^|]*) \|", re.MULTILINE)
    rows = dict(row.findall(PAGE.read_text()))
    said = {
        "`maxRowsPerBatch`, `maxBytesPerBatch`": [options.max_rows_per_batch, options.max_bytes_per_batch],
        "`pageRows`, `pageBytes`, `splits`, `splitBytes`, `waitMs`": [
            options.page_rows,
            options.page_bytes,
            options.splits,
            options.split_bytes,
            options.wait_ms,
        ],
    }
    assert rows == {names: ", ".join(map(shown, values)) for names, values in said.items()}
