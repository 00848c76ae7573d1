"""A page from facts."""

from __future__ import annotations

import datetime
from html.parser import HTMLParser

from fairlead_ingest.rows import schema
from fairlead_ingest.table import report
from fairlead_ingest.table.report import Delay, Facts

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
        gaps=[["recreated", "a/t", "1:0a", "2:", "unknown"]], dead_letters=[("not JSON", 7)],
    )  # fmt: skip
    text = read(report.page([facts], NOW))
    for wanted in ("telemetry", "edge-1", "2026-11-20 11:00", "3.25", "recreated", "not JSON", "2026-11-20T12:00:00"):
        assert wanted in text


def test_what_is_not_there_is_said() -> None:
    """An empty table has a page too."""
    assert read(report.page([Facts(name="n", table="/t", rows=0)], NOW)).count("none") == 6


def test_names_from_outside_are_text() -> None:
    """A node may call itself anything."""
    assert "<script>" not in report.page([Facts(name="<script>", table="<b>", rows=1, by_node=[("<i>", 1)])], NOW)


def test_many_bars_are_summed_up() -> None:
    """Nobody reads a thousand."""
    drawn = report.bars([(f"edge-{number}", 1) for number in range(1000)])
    assert f"{1000 - report.BARS_MAX} more" in drawn
    assert drawn.count("<rect") == report.BARS_MAX + 1


def test_misfits_are_counted_by_field_and_reason() -> None:
    """A thousand values that do not fit are one line, whatever they are; nothing is cut, and the sum is told."""
    letters = [(f"{schema.MISFIT} at temperature: [null, {number}] is no double", 1) for number in range(1000)]
    letters += [(f"{schema.MISFIT} at temperature, at: x", 2), (f"{schema.MISFIT}: no field named", 1)]
    letters += [("not JSON (byte 17)", 4), ("not JSON (byte 9)", 1)]
    letters += [(f"Expected `int`, got `str` - at `$.epoch{'x' * 60}`", 3)]
    assert report.misfits(letters) == [
        [schema.MISFIT, "temperature", "1,002"],
        ["not JSON (byte #)", "", "5"],
        ["Expected `int`, got `str`", f"epoch{'x' * 60}", "3"],
        [schema.MISFIT, "at", "2"],
        [schema.MISFIT, "", "1"],
        ["dead letters in all", "", "1,011"],
    ]
    text = read(report.page([Facts(name="n", table="/t", rows=0, dead_letters=letters)], NOW))
    assert "x" * 60 in text and "1,011" in text
    assert report.misfits([]) == []


def test_kinds_that_are_left_out_are_summed_up() -> None:
    """And counted in the sum."""
    lines = report.misfits([(f"{schema.MISFIT} at field{number}: x", 1) for number in range(100)])
    assert lines[-2:] == [[f"{100 - report.BARS_MAX} more kinds", "", "52"], ["dead letters in all", "", "100"]]


def test_labels_are_whole_and_bars_have_a_sum() -> None:
    """Names of nodes may have 253 characters."""
    text = read(report.bars([("n" * 253, 2), ("m", 1)]))
    assert "n" * 253 in text and "in all" in text and "3" in text


def test_the_page_knows_the_sinks_own_words() -> None:
    """It cannot import them: that module needs Spark."""
    assert report.MISFIT == schema.MISFIT
