"""Tables: straight, whole, and of one line for each row."""

from __future__ import annotations

import operator

import pytest

from fairlead_cli.output import tables
from fairlead_cli.output.tables import OutputColumn, TableView

COLUMNS = tables.of_tuples("x", "A", "LONG").columns


def test_cells_are_aligned_and_never_cut() -> None:
    printed, widths = tables.lines(COLUMNS, [("wide cell", 1), ("x", "y" * 300)])
    assert printed == ["A           LONG", "wide cell   1", "x           " + "y" * 300]
    assert widths == [9, 300]


def test_later_lines_stand_below_earlier_ones() -> None:
    _, widths = tables.lines(COLUMNS, [("wide cell", 1)])
    assert tables.lines(COLUMNS, [("x", 22)], headers=False, widths=widths)[0] == ["x           22"]


def test_nothing_reaches_the_terminal_as_a_command() -> None:
    printed, _ = tables.lines(COLUMNS, [("a\nb\x1b[2J", None)])
    assert printed[1] == r"a\nb\x1b[2J   <none>"


def test_colours_stand_inside_of_the_padding() -> None:
    columns = (
        OutputColumn("A", operator.itemgetter(0), style=lambda _: "good"),
        OutputColumn("B", operator.itemgetter(1)),
    )
    assert tables.lines(columns, [("x", "y")], headers=False, colored=True, widths=[3, 1])[0] == [
        "\x1b[32mx\x1b[0m     y"
    ]


def test_wide_columns() -> None:
    view = TableView(kind="x", name=str, columns=(OutputColumn("A", str), OutputColumn("B", str, wide=True)))
    assert [column.name for column in view.shown(wide=False)] == ["A"]
    assert [column.name for column in view.shown(wide=True)] == ["A", "B"]


# ---- when output is coloured ----


@pytest.mark.parametrize(
    ("mode", "is_terminal", "environ", "wanted"),
    [
        ("auto", True, {}, True),
        ("auto", True, {"TERM": "xterm"}, True),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("auto", False, {}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {}, False),
    ],
)
def test_when(mode: tables.Mode, is_terminal: bool, environ: dict[str, str], wanted: bool) -> None:
    """A terminal that can show it and a user who did not say no; an option wins over both."""
    assert tables.wants_color(mode, is_terminal, environ) is wanted


def test_paint() -> None:
    assert tables.paint("x", "bad") == "\x1b[31mx\x1b[0m"
    assert tables.paint("x", "") == "x"
