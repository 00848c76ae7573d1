"""Globs over topics: ``namespace/name`` with ``*`` for any characters of one part; ``!`` in front takes topics away.

Matching is linear in the name, whatever the pattern: names come from requests, and a regular expression with many
stars could be made to take for ever.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

EVERYTHING: Final = "*"
"""Short for ``*/*``."""
PART_CHARS_MAX: Final = 200
"""As a name."""
_PART: Final = re.compile(r"[A-Za-z0-9_*-]{1,200}")


class TopicGlob(msgspec.Struct, frozen=True):
    """One pattern; ``excludes``: it began with ``!``."""

    namespace: str
    name: str
    excludes: bool = False

    def matches(self, namespace: str, name: str) -> bool:
        """Both parts, each by its own half: no character of a name can stand for the slash."""
        return part_matches(self.namespace, namespace) and part_matches(self.name, name)


def parse(text: str) -> TopicGlob:
    """Raises ``ValueError`` with what would be right."""
    excludes, pattern = text.startswith("!"), text.removeprefix("!")
    namespace, slash, name = ("*", "/", "*") if pattern == EVERYTHING else pattern.partition("/")
    if not slash or not _PART.fullmatch(namespace) or not _PART.fullmatch(name):
        raise ValueError(
            "must be namespace/name, where * stands for any characters of one part (default/*, */orders-*), or * for "
            "every topic; ! in front takes topics away"
        )
    return TopicGlob(namespace, name, excludes)


def part_matches(pattern: str, text: str) -> bool:
    """``*`` is any number of characters, all others are themselves; upper and lower case differ."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == text
    *middle, last = rest
    if not text.startswith(first) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return text.endswith(last)
