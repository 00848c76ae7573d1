"""JSON values as YAML, without a YAML library: the command line works without any of the extras.

Keys and texts are written bare only where no reader of YAML 1.1 or 1.2 could take them for anything else; everything
else is quoted as in JSON, which is YAML too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_BARE = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*")
_WORDS = frozenset(["true", "false", "null", "yes", "no", "on", "off", "y", "n"])


def text_of(value: Any) -> str:
    """One document, with a trailing line feed."""
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _entry(f"{_scalar(str(key))}:", each)
    elif isinstance(value, (list, tuple)) and value:
        for each in value:
            first, *others = _lines(each)
            yield f"- {first}"
            yield from (f"  {line}" for line in others)
    else:
        yield _scalar(value)


def _entry(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        yield key
        yield from (f"  {line}" for line in _lines(value))
    elif isinstance(value, (list, tuple)) and value:
        yield key
        yield from _lines(value)
    else:
        yield f"{key} {_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        bare = _BARE.fullmatch(value) and value.lower() not in _WORDS
        return value if bare else _quoted(value)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, (list, tuple)):
        return "[]"
    if isinstance(value, float) and "e" in repr(value) and "." not in repr(value):
        return repr(value).replace("e", ".0e")  # YAML 1.1 takes 1e-05 for a text
    return json.dumps(value)


def _quoted(text: str) -> str:
    """Quoted as in JSON; characters that YAML does not allow are escaped by number."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else _escaped(each) for each in quoted)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}"
