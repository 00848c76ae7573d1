"""When output is coloured, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Mode = Literal["auto", "always", "never"]
Style = Literal["", "good", "bad", "warn", "dim"]

_CODES: Mapping[Style, str] = {"good": "32", "bad": "31", "warn": "33", "dim": "2"}


def is_wanted(mode: Mode, is_terminal: bool, environ: Mapping[str, str]) -> bool:
    """``auto``: on a terminal that can show it, unless NO_COLOR is set to anything (https://no-color.org)."""
    if mode != "auto":
        return mode == "always"
    return is_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def paint(text: str, style: Style) -> str:
    """The text in its colour; without a style the text itself."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style else text
