"""Changes top-level keys of a settings file and leaves everything else as people wrote it: comments, order, blanks.

    text ─edited({"node": "shop-17"})─▶ the text with only these values changed

TOML allows more notations than this module understands.  Therefore the result is parsed and compared with the wanted
values; a text that cannot be edited like this is refused, never damaged.
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
    """The settings file cannot be edited safely; the message says why."""


def fresh(values: Mapping[str, str]) -> str:
    """The text of a new file."""
    head = "# Written by `fairlead edge join`. Every key: docs/reference/edge.md.\n"
    return head + "".join(f"{_line(key, value)}\n" for key, value in values.items())


def edited(text: str, values: Mapping[str, str]) -> str:
    """``text`` with these values for its top-level keys.  Raises ``CannotEdit``."""
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
        if _parses_to(result, wanted):
            return result
    raise CannotEdit("one of the keys is written in a form that cannot be edited automatically")


def _replace(lines: list[str], end: int, key: str, value: str) -> bool:
    """Change the value if the key has a plain string on one line; a comment after it stays."""
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


def _parses_to(text: str, wanted: Mapping[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except (ValueError, RecursionError):
        return False


def _line(key: str, value: str) -> str:
    return f"{key} = {_text(value)}"


def _text(value: str) -> str:
    # JSON's escapes are valid in TOML.
    return json.dumps(value, ensure_ascii=False)
