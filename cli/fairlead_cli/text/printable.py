"""Shows foreign text on a terminal without letting it control the terminal.

A node's refusal, a pause's reason or an answer over HTTP may hold escape sequences that clear the screen, change its
title, or write over the line before.
"""

from __future__ import annotations

import json


def one_line(text: str) -> str:
    """The text with all control characters escaped, including line feeds."""
    return _escaped(text, "")


def lines(text: str) -> str:
    """The same, but line feeds and tabs are kept."""
    return _escaped(text, "\n\t")


def json_line(text: str) -> str:
    """A line of JSON with the same value, with control characters escaped as in JSON."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else " " if each.isspace() and each.isascii() else json.dumps(each)[1:-1]
        for each in text
    )


def _escaped(text: str, kept: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode() for each in text
    )
