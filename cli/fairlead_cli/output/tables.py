"""Tables as kubectl prints them: columns padded to their widest cell, separated by three spaces, nothing truncated."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fairlead_cli.text import printable

Mode = Literal["auto", "always", "never"]
Style = Literal["", "good", "bad", "warn", "dim"]

_CODES: Mapping[Style, str] = {"good": "32", "bad": "31", "warn": "33", "dim": "2"}
GAP = "   "
NONE = "<none>"
"""Shown for empty cells, as in kubectl: every row has as many words as there are columns."""


def _no_style(_: Any) -> Style:
    return ""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column; ``value`` takes it from a row. Wide ones are shown with `-o wide` only."""

    name: str
    value: Callable[[Any], object]
    wide: bool = False
    style: Callable[[Any], Style] = _no_style


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """The columns of one type of row. `-o name` prints ``kind/name``."""

    kind: str | Callable[[Any], str]
    name: Callable[[Any], str]
    columns: tuple[OutputColumn, ...]

    def full_name(self, row: Any) -> str:
        """In the form kubectl accepts: ``edgenode.fairlead.dev/edge-1``."""
        return f"{self.kind if isinstance(self.kind, str) else self.kind(row)}/{self.name(row)}"

    def shown(self, wide: bool) -> tuple[OutputColumn, ...]:
        return tuple(column for column in self.columns if wide or not column.wide)


def of_tuples(kind: str, *heads: str) -> TableView:
    """For rows that are tuples with a value for each column; the first one is the name."""
    columns = tuple(OutputColumn(head, operator.itemgetter(at)) for at, head in enumerate(heads))
    return TableView(kind=kind, name=operator.itemgetter(0), columns=columns)


def plain(value: object) -> str:
    """A cell: one line with control characters escaped, because it may contain text of peers."""
    return NONE if value is None or value == "" else printable.one_line(str(value))


def lines(
    columns: Sequence[OutputColumn],
    rows: Sequence[Any],
    *,
    headers: bool = True,
    colored: bool = False,
    widths: Sequence[int] = (),
) -> tuple[list[str], list[int]]:
    """The lines and the widths of the columns; the ``widths`` of earlier lines keep a watched table aligned."""
    cells = [[plain(column.value(row)) for column in columns] for row in rows]
    heads = [[column.name for column in columns]] if headers else []
    floor = list(widths) or [0] * len(columns)
    wide = [max([least, *(len(row[at]) for row in (*heads, *cells))]) for at, least in enumerate(floor)]
    printed = [_line(head, wide) for head in heads]
    for row, texts in zip(rows, cells, strict=True):
        styles = [column.style(row) for column in columns] if colored else []
        printed.append(_line(texts, wide, styles))
    return printed, wide


def _line(texts: Sequence[str], widths: Sequence[int], styles: Sequence[Style] = ()) -> str:
    # The last cell is not padded; a coloured cell is padded outside of its colour.
    last = len(texts) - 1
    padding = [
        " " * (width - len(text)) if at < last else ""
        for at, (text, width) in enumerate(zip(texts, widths, strict=True))
    ]
    painted = [paint(text, style) for text, style in zip(texts, styles, strict=True)] if styles else texts
    return GAP.join(text + pad for text, pad in zip(painted, padding, strict=True))


# ── colours ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def wants_color(mode: Mode, is_terminal: bool, environ: Mapping[str, str]) -> bool:
    """``auto``: on a terminal that supports colour, unless NO_COLOR is set (https://no-color.org)."""
    if mode != "auto":
        return mode == "always"
    return is_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def paint(text: str, style: Style) -> str:
    """The text in its style; without one the text itself."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style else text
