"""When output is coloured."""

from __future__ import annotations

import pytest

from fairlead_cli.output import tables


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
    assert tables.is_wanted(mode, is_terminal, environ) is wanted


def test_paint() -> None:
    """Codes around the text; none without a style."""
    assert tables.paint("x", "bad") == "\x1b[31mx\x1b[0m"
    assert tables.paint("x", "") == "x"
