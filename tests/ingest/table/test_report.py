"""A page from facts."""

from __future__ import annotations

import datetime
from html.parser import HTMLParser

from fairlead_ingest.table import report
from fairlead_ingest.table.report import DeadLetters, Delay, Facts

NOW = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)
VOID = {"meta", "rect"}


class Balance(HTMLParser):
    """Whether every tag that is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        assert tag in VOID

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def read(page: str) -> str:
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    return balance.text


def test_the_page_says_what_is_known() -> None:
    """Nodes, hours, priorities, delays, gaps, dead letters; well-formed."""
    facts = Facts(
        name="telemetry", table="/t", rows=3, by_node=[("edge-1", 2), ("edge-2", 1)],
        by_hour=[("2026-11-20 11:00", 3)], by_priority=[("0", 3)],
        delays=[Delay(priority=0, rows=3, to_messaging=(0.1, 0.2, 0.3), to_table=(1.0, 2.0, 3.25))],
        gaps=[["recreated", "a/t", "1:0a", "2:", "unknown"]],
        dead_letters=[DeadLetters(code="not_json", rows=7, example="not JSON (byte 9)")],
    )  # fmt: skip
    text = read(report.page([facts], NOW))
    for wanted in (
        "telemetry",
        "edge-1",
        "2026-11-20 11:00",
        "3.25",
        "recreated",
        "not_json",
        "(byte 9)",
        "2026-11-20T12:00:00",
    ):
        assert wanted in text


def test_what_is_not_there_is_said() -> None:
    """An empty table has a page too."""
    assert read(report.page([Facts(name="n", table="/t", rows=0)], NOW)).count("none") == 6


def test_names_from_outside_are_text() -> None:
    """A node may call itself anything."""
    assert "<script>" not in report.page([Facts(name="<script>", table="<b>", rows=1, by_node=[("<i>", 1)])], NOW)


def test_many_bars_are_summed_up() -> None:
    """A page does not show a thousand."""
    drawn = report.bars([(f"edge-{number}", 1) for number in range(1000)])
    assert f"{1000 - report.BARS_MAX} more" in drawn
    assert drawn.count("<rect") == report.BARS_MAX + 1


def test_dead_letters_are_counted_by_code_and_field() -> None:
    """One that names two fields counts at both, and once in the sum; the example is cut, the field is not."""
    letters = [
        DeadLetters(code="misfit", fields=("temperature",), rows=1000, example="x" * 1000),
        DeadLetters(code="misfit", fields=("temperature", "at"), rows=2, example="two"),
        DeadLetters(code="not_json", rows=5, example="byte 17"),
        DeadLetters(code="bad_field", fields=("f" * 60,), rows=3, example="<b>"),
    ]
    assert report.by_field(letters) == [
        ["misfit", "temperature", "1,002", "x" * report.EXAMPLE_CHARS_MAX],
        ["not_json", "", "5", "byte 17"],
        ["bad_field", "f" * 60, "3", "<b>"],
        ["misfit", "at", "2", "two"],
        ["dead letters in all", "", "1,010", ""],
    ]
    page = report.page([Facts(name="n", table="/t", rows=0, dead_letters=letters)], NOW)
    assert "f" * 60 in read(page) and "1,010" in read(page) and "<b>" not in page
    assert report.by_field([]) == []


def test_kinds_that_are_left_out_are_summed_up() -> None:
    """And counted in the sum."""
    letters = [DeadLetters(code="misfit", fields=(f"field{n}",), rows=1, example="x") for n in range(100)]
    lines = report.by_field(letters)
    assert lines[-2:] == [[f"{100 - report.BARS_MAX} more kinds", "", "52", ""], ["dead letters in all", "", "100", ""]]


def test_labels_are_whole_and_bars_have_a_sum() -> None:
    """Names of nodes may have 253 characters."""
    text = read(report.bars([("n" * 253, 2), ("m", 1)]))
    assert "n" * 253 in text and "in all" in text and "3" in text
