"""Names for shell completion, within a second.

Errors yield no names and print nothing, so that they do not disturb the command line being typed.
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
"""Overrides the time limit, for distant clusters."""


def limit() -> float:
    """The time limit for names."""
    with contextlib.suppress(ValueError):
        return float(os.environ.get(VARIABLE, SECONDS))
    return SECONDS


def within(ask: Callable[[], Iterable[str]]) -> list[str]:
    """The names ``ask`` returns, sorted; none if it fails or takes too long."""
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
    """The names that begin with the typed text."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def given(context: click.Context, name: str) -> Any:
    """The value of an option on the command line, also one before the command's name."""
    at: click.Context | None = context
    while at is not None:
        if at.params.get(name) is not None:
            return at.params[name]
        at = at.parent
    return None
