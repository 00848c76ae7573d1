"""A settings file with some of its top keys changed, and everything else as people wrote it: comments, order, blanks.

    text ─edited({"node": "shop-17"})─▶ text, which says the same but for these keys

TOML allows more ways of writing than are understood here.  Therefore the result is read and compared with what it
should say; a text that cannot be edited so is refused, never damaged.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

_TABLE: Final = re.compile(r"\s*\[")
_KEY: Final = re.compile(r"\s*[A-Za-z0-9_-]+\s*=")


class CannotEdit(Exception):
    """The text cannot be edited safely; the reason is in the text."""


def fresh(values: Mapping[str, str]) -> str:
    """A new file."""
    head = "# Written by `fairlead edge join`. Every key: docs/reference/edge.md.\n"
    return head + "".join(f"{_line(key, value)}\n" for key, value in values.items())


def edited(text: str, values: Mapping[str, str]) -> str:
    """``text`` with these texts as values of its top keys.  Raises ``CannotEdit``."""
    try:
        wanted = {**tomllib.loads(text), **values}
    except (ValueError, RecursionError) as error:
        raise CannotEdit(f"it is not TOML: {error}") from None
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    end = next((at for at, line in enumerate(lines) if _TABLE.match(line)), len(lines))
    missing = [key for key, value in values.items() if not _replace(lines, end, key, value)]
    new = [f"{_line(key, values[key])}\n" for key in missing]
    for place in _places(lines, end):
        result = "".join([*lines[:place], *new, *lines[place:]])
        if _says(result, wanted):
            return result
    raise CannotEdit("a key stands in it in a form that is not changed by programs")


def _replace(lines: list[str], end: int, key: str, value: str) -> bool:
    """Change the value where the key is given as a plain text on one line; a comment behind it stays."""
    written = re.compile(rf"""(\s*{re.escape(key)}\s*=\s*)("[^"\\\n]*"|'[^'\n]*')(\s*(?:#.*)?\n)""")
    for at in range(end):
        if found := written.fullmatch(lines[at]):
            lines[at] = f"{found[1]}{_text(value)}{found[3]}"
            return True
    return False


def _places(lines: list[str], end: int) -> Iterator[int]:
    """Places for new keys, the most natural one first: after the last top-level key."""
    yield max((at + 1 for at in range(end) if _KEY.match(lines[at])), default=end)
    yield end
    yield 0


def _says(text: str, wanted: Mapping[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except (ValueError, RecursionError):
        return False


def _line(key: str, value: str) -> str:
    return f"{key} = {_text(value)}"


def _text(value: str) -> str:
    # JSON's escapes are TOML's, too.
    return json.dumps(value, ensure_ascii=False)
