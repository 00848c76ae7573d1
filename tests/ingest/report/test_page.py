"""A page from facts."""

from __future__ import annotations

import datetime

from tests.support.html_reader import read

from fairlead_ingest.report import page
from fairlead_ingest.report.facts import (
    CommitPoint,
    FileSize,
    LetterCount,
    PriorityDelay,
    ReportGap,
    TableFacts,
    TopicLag,
    file_layout,
)
from fairlead_ingest.report.over_time import OverTime
from fairlead_ingest.report.plot import BARS_MAX

NOW = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)


def test_the_page_says_what_is_known():
    """Pictures, what is behind, files, nodes, hours, priorities, delays, gaps, dead letters; well-formed."""
    noon = int(NOW.timestamp())
    counted = OverTime()
    counted.add_arrived([(noon, 50), (noon + 60, 70)])
    counted.add_taken([(noon + 1, 120)])
    counted.add_delayed([(noon, 4, 120)])
    facts = TableFacts(
        name="telemetry",
        table="/t",
        rows=3_000_000,
        counted=120,
        days=7,
        lags=[TopicLag(topic="a/t", state="ok", messages=5, seconds=150.0), TopicLag(topic="b/t", state="unreachable")],
        points=counted.points(),
        commits=[CommitPoint(seconds=noon, p50=0.5, p95=1.5), CommitPoint(seconds=noon + 1, p50=0.25, p95=2.0)],
        layout=file_layout([FileSize(topic="a/t", date="2026-11-20", bytes=10)] * 40, open_seconds=0.01, opened=20),
        by_node=[("edge-1", 2), ("edge-2", 1)],
        by_hour=[("2026-11-20 11:00", 3)],
        by_priority=[("0", 3)],
        delays=[PriorityDelay(priority=0, rows=3, to_messaging=(0.1, 0.2, 0.3), to_table=(1.0, 2.0, 3.25))],
        gaps=[ReportGap(reason="recreated", topic="a/t", begins="1:0a", ends="2:", rows=None, seconds=noon + 5)],
        dead_letters=[LetterCount(code="not_json", rows=7, example="not JSON (byte 9)")],
    )
    text = read(page.page([facts], NOW))
    for wanted in (
        "telemetry",
        "3,000,000 rows in /t",
        "120 rows of the last 7 days",
        "published: 50",
        "95 % within: 1.5 s",
        "2 min",
        "unreachable",
        "40 files, 400 B",
        "edge-1",
        "2026-11-20 11:00",
        "3.25",
        "gap: recreated a/t 1:0a 2: unknown",
        "not_json",
        "(byte 9)",
        "2026-11-20T12:00:00",
    ):
        assert wanted in text, wanted


def test_what_is_not_there_is_said():
    """An empty table has a page too; a service that was not asked is not spoken of."""
    text = read(page.page([TableFacts(name="n", table="/t", rows=0)], NOW))
    assert text.split("\n").count("none") == 11 and "Behind the topics now" not in text


def test_names_from_outside_are_text():
    assert "<script>" not in page.page([TableFacts(name="<script>", table="<b>", rows=1, by_node=[("<i>", 1)])], NOW)


def test_dead_letters_are_counted_by_code_and_field():
    """One that names two fields counts at both, and once in the sum; the example is cut, the field is not."""
    letters = [
        LetterCount(code="misfit", fields=("temperature",), rows=1000, example="x" * 1000),
        LetterCount(code="misfit", fields=("temperature", "at"), rows=2, example="two"),
        LetterCount(code="not_json", rows=5, example="byte 17"),
        LetterCount(code="bad_field", fields=("f" * 60,), rows=3, example="<b>"),
    ]
    assert page.by_field(letters) == [
        ["misfit", "temperature", "1,002", "x" * page.EXAMPLE_CHARS_MAX],
        ["not_json", "", "5", "byte 17"],
        ["bad_field", "f" * 60, "3", "<b>"],
        ["misfit", "at", "2", "two"],
        ["dead letters in all", "", "1,010", ""],
    ]
    shown = page.page([TableFacts(name="n", table="/t", rows=0, dead_letters=letters)], NOW)
    assert "f" * 60 in read(shown) and "1,010" in read(shown) and "<b>" not in shown
    assert page.by_field([]) == []


def test_kinds_that_are_left_out_are_summed_up():
    letters = [LetterCount(code="misfit", fields=(f"field{n}",), rows=1, example="x") for n in range(100)]
    lines = page.by_field(letters)
    assert lines[-2:] == [[f"{100 - BARS_MAX} more kinds", "", "52", ""], ["dead letters in all", "", "100", ""]]
