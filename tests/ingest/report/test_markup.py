"""Bars, tables and sections of the page."""

from __future__ import annotations

from tests.support.html_reader import read

from fairlead_ingest.report import plot


def test_many_bars_are_summed_up() -> None:
    """A page does not show a thousand."""
    drawn = plot.bars([(f"edge-{number}", 1) for number in range(1000)])
    assert f"{1000 - plot.BARS_MAX} more" in drawn
    assert drawn.count("<rect") == plot.BARS_MAX + 1


def test_of_a_long_time_the_newest_are_shown() -> None:
    """Their bars have a length, and the sum is that of all."""
    drawn = plot.bars([(f"hour {number:03}", 1) for number in range(100)], is_over_time=True)
    text = read(drawn)
    assert "hour 099" in text and "hour 051" not in text and f"{100 - plot.BARS_MAX} earlier" in text
    assert text.index("earlier") < text.index("hour 099") and "in all\n100" in text
    assert drawn.count(f'width="{plot.BAR_WIDTH}"') == 2 * (plot.BARS_MAX + 1)


def test_labels_are_whole_and_bars_have_a_sum() -> None:
    """Names of nodes may have 253 characters."""
    text = read(plot.bars([("n" * 253, 2), ("m", 1)]))
    assert "n" * 253 in text and "in all" in text and "3" in text


def test_a_count_of_none_has_no_bar() -> None:
    assert 'width="0"' in plot.bars([("small", 3), ("large", 0)])


def test_texts_are_escaped() -> None:
    """In heads, cells, titles and notes."""
    made = plot.grid(["<i>"], [["<b>"]]) + plot.section("<u>", "<p>ours</p>", "<s>") + plot.bars([("<em>", 1)])
    assert not {"<i>", "<b>", "<u>", "<s>", "<em>"} & {made[i : i + n] for i in range(len(made)) for n in (3, 4)}
    assert plot.section("t", "", "not shown") == "<h3>t</h3>\n<p>none</p>"
