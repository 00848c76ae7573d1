"""Charts, bars, tables and sections of the report's page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.html_reader import read

from fairlead_ingest.report import plot
from fairlead_ingest.report.plot import Line, PlotMark

NOON = 1_795_262_400
VALUES = st.one_of(st.none(), st.floats(0, 1e12, allow_nan=False, allow_infinity=False))


def drawn(seconds: list[int], *lines: Line, marks: tuple[PlotMark, ...] = (), log: bool = False) -> ElementTree.Element:
    text = plot.draw("Rate <of> all", seconds, lines, shown=lambda value: f"{value:g}", marks=marks, is_logarithmic=log)
    return ElementTree.fromstring(f"<p>{text}</p>")


def texts(found: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in found.iter("text")]


def test_axes_and_names():
    """The y axis ends at a round number; time is said as finely as it must be."""
    found = drawn([NOON, NOON + 60, NOON + 120], Line(name="published", values=[0.0, 37.0, 12.0]))
    assert texts(found)[:5] == ["0", "12.5", "25", "37.5", "50"]
    assert "12:01" in texts(found) and "".join(found.find("ul").itertext()) == "published"  # type: ignore[union-attr]
    (svg, *_) = found.iter("svg")
    assert svg.attrib["aria-label"] == "Rate <of> all"


@pytest.mark.parametrize(
    ("span", "text"),
    [(20, "12:00:05"), (7200, "12:30"), (3 * 86_400, "23 Nov 00:00"), (40 * 86_400, "26 Nov"), (900 * 86_400, "2027")],
)
def test_times_are_told_apart(span, text):
    begin = 1_795_348_800  # 2026-11-22 12:00
    found = drawn([begin, begin + span], Line(name="n", values=[1.0, 1.0]))
    assert any(text in each for each in texts(found)), texts(found)
    assert len(set(texts(found)[5:])) == len(texts(found)[5:])


def test_a_hole_ends_a_stretch_and_a_lone_point_is_a_dot():
    found = drawn([NOON + each for each in range(5)], Line(name="n", values=[1.0, 2.0, None, 3.0, None]))
    lines = [each for each in found.iter("path") if each.get("class") == "l0" and "L" in each.get("d", "")]
    assert len(lines) == 1 and len([*found.iter("circle")]) == 1


def test_values_are_said_where_one_points():
    found = drawn([NOON, NOON + 60], Line(name="a", values=[1.0, None]), Line(name="b", values=[2.0, None]))
    said = [each.text for each in found.iter("title")]
    assert said == ["2026-11-21 12:00:00 UTC\na: 1\nb: 2", "2026-11-21 12:01:00 UTC\nnothing"]


def test_marks_outside_the_picture_are_left_out():
    marks = (PlotMark(seconds=NOON + 1, text="gap <1>"), PlotMark(seconds=NOON - 5, text="before"))
    said = [
        each.text for each in drawn([NOON, NOON + 60], Line(name="n", values=[1.0, 1.0]), marks=marks).iter("title")
    ]
    assert "gap <1>" in said and "before" not in said


def test_nothing_is_no_picture():
    assert plot.draw("t", [], [], shown=str) == ""
    assert plot.draw("t", [NOON], [Line(name="n", values=[None])], shown=str) == ""


@pytest.mark.slow
@given(st.lists(VALUES, min_size=1, max_size=30), st.booleans(), st.integers(1, 10**9))
def test_any_values_stay_inside(values, log, step):
    seconds = [each * step for each in range(len(values))]
    line = Line(name="n", values=values)
    text = plot.draw("t", seconds, [line], shown=lambda value: f"{value:g}", is_logarithmic=log)
    if not any(value is not None for value in values):
        assert text == ""
        return
    ElementTree.fromstring(f"<p>{text}</p>")
    assert "nan" not in text and "inf" not in text
    picture, _, _ = text.partition('<ul class="legend">')
    for path in re.findall(r'class="l0" d="M([^"]*)"', picture):
        for x, y in (point.split() for point in path.split("L") if " " in point):
            assert plot.LEFT <= float(x) <= plot.WIDTH and plot.TOP <= float(y) <= plot.HEIGHT


def test_many_bars_are_summed_up():
    drawn = plot.bars([(f"edge-{number}", 1) for number in range(1000)])
    assert f"{1000 - plot.BARS_MAX} more" in drawn
    assert drawn.count("<rect") == plot.BARS_MAX + 1


def test_of_a_long_time_the_newest_are_shown():
    drawn = plot.bars([(f"hour {number:03}", 1) for number in range(100)], is_over_time=True)
    text = read(drawn)
    assert "hour 099" in text and "hour 051" not in text and f"{100 - plot.BARS_MAX} earlier" in text
    assert text.index("earlier") < text.index("hour 099") and "in all\n100" in text
    assert drawn.count(f'width="{plot.BAR_WIDTH}"') == 2 * (plot.BARS_MAX + 1)


def test_labels_are_whole_and_bars_have_a_sum():
    text = read(plot.bars([("n" * 253, 2), ("m", 1)]))
    assert "n" * 253 in text and "in all" in text and "3" in text


def test_a_count_of_none_has_no_bar():
    assert 'width="0"' in plot.bars([("small", 3), ("large", 0)])


def test_texts_are_escaped():
    made = plot.grid(["<i>"], [["<b>"]]) + plot.section("<u>", "<p>ours</p>", "<s>") + plot.bars([("<em>", 1)])
    assert not {"<i>", "<b>", "<u>", "<s>", "<em>"} & {made[i : i + n] for i in range(len(made)) for n in (3, 4)}
    assert plot.section("t", "", "not shown") == "<h3>t</h3>\n<p>none</p>"
