"""What the messaging service says, as it is printed."""

from __future__ import annotations

import sys

import pytest

from fairlead_cli.output import topic_lines


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"plain \xc3\xa4", "plain ä"),
        (b"two\nlines", "two\\nlines"),
        (b"\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\u202eevil".encode(), "\\u202eevil"),
        (b"\xff", "b'\\xff'"),
        (b"x" * 200, "x" * 200),
    ],
)
def test_a_payload_cannot_command_the_terminal(payload: bytes, text: str) -> None:
    assert topic_lines.shown(payload) == text


def test_moments_beyond_the_calendar_are_numbers() -> None:
    assert topic_lines.moment(0) == "1970-01-01T00:00:00.000Z"
    assert topic_lines.moment(2**63) == str(2**63)


def test_lines_are_whole_in_pipes_and_fit_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a program reads is never shortened; what a person reads stays one line a message."""
    monkeypatch.setenv("COLUMNS", "40")
    topic_lines.print_line("x" * 5000)
    assert capsys.readouterr().out == "x" * 5000 + "\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for line in ("x" * 40, "x" * 41):
        topic_lines.print_line(line)
    assert capsys.readouterr().out.splitlines() == ["x" * 40, "x" * 39 + "…"]
