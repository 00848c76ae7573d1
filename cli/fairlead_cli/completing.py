"""Names for shell completion, within a second.

An error yields no names and prints nothing: it must not disturb the line that is being typed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

SECONDS = 1.0
VARIABLE = "FAIRLEAD_COMPLETE_SECONDS"
"""Another limit, for clusters far away."""


def limit() -> float:
    """How long names may take."""
    with contextlib.suppress(ValueError):
        return float(os.environ.get(VARIABLE, SECONDS))
    return SECONDS


def within(ask: Callable[[], Iterable[str]]) -> list[str]:
    """What ``ask`` returns, sorted; nothing if it takes too long or fails in any way."""
    found: list[str] = []

    def asked() -> None:
        with contextlib.suppress(Exception, SystemExit):
            found.extend(sorted(set(ask())))

    logging.disable(logging.CRITICAL)
    try:
        thread = threading.Thread(target=asked, daemon=True)
        thread.start()
        thread.join(limit())
        return list(found)
    finally:
        logging.disable(logging.NOTSET)


def beginning(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    """The names that begin with what was typed."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def given(context: click.Context, name: str) -> Any:
    """The value of an option on the line, also before the command's own name."""
    at: click.Context | None = context
    while at is not None:
        if at.params.get(name) is not None:
            return at.params[name]
        at = at.parent
    return None
