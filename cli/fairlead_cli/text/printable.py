"""Texts of others on a terminal: shown, and never obeyed by it.

A node's refusal, a pause's reason or an answer over HTTP may hold escape sequences that clear the screen, change its
title, or write over the line before.
"""

from __future__ import annotations


def one_line(text: str) -> str:
    """With nothing in it that a terminal would obey; a line feed is escaped, too."""
    return _escaped(text, "")


def lines(text: str) -> str:
    """The same, and its line feeds and tabs stay."""
    return _escaped(text, "\n\t")


def _escaped(text: str, kept: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode() for each in text
    )
