"""Following what cannot be watched: asked again and again, and only what changed is shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import click

Row = TypeVar("Row")
SECONDS = 2.0

option = click.option("-w", "--watch", is_flag=True, help="Then a line for each change, until interrupted.")


def changed(
    ask: Callable[[], Sequence[Row]],
    name: Callable[[Row], object],
    *,
    said: Callable[[Row], Any] = lambda row: row,
    pause: Callable[[float], None] = time.sleep,
    complain: Callable[[str], None] = lambda text: click.echo(f"{text}; asked again", err=True),
) -> Iterator[list[Row]]:
    """All rows at first, then those of which ``said`` differs from the time before; endless.

    ``name`` tells rows apart. What cannot be asked is waited for, after it could be asked once.
    """
    before: dict[object, Any] = {}
    known = False
    troubled = False
    while True:
        try:
            rows = ask()
        except click.ClickException as trouble:
            if not known:
                raise
            if not troubled:
                complain(trouble.format_message())
            troubled, rows = True, ()
        else:
            now = {name(row): said(row) for row in rows}
            fresh = [row for row in rows if name(row) not in before or before[name(row)] != now[name(row)]]
            before, known, troubled, rows = now, True, False, fresh
        yield list(rows)
        pause(SECONDS)
