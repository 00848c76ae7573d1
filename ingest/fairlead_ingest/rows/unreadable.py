r"""Says why a text cannot be read as JSON where the decoder's own words would mislead.

The decoder calls an empty payload, and one whose last string has half of a surrogate pair, truncated; it does not look
at the bytes around a value such as NaN, which many writers of JSON produce.
"""

from __future__ import annotations

import json
import re

_TRUNCATED = "truncated"
_PLACE = re.compile(r"\(byte ([0-9]+)\)$")
_WORD = re.compile(rb"-?(?:NaN|Infinity)|None|True|False|undefined")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def reason(text: bytes, error: Exception) -> str:
    """Why ``text`` cannot be read; ``error`` is the decoder's."""
    try:
        text.decode()
    except UnicodeDecodeError as wrong:
        return f"text is not UTF-8: byte 0x{text[wrong.start]:02x} (byte {wrong.start}): {wrong.reason}"
    if not text.strip():
        return "the payload is empty"
    if text.startswith(_BYTE_ORDER_MARK):
        return "JSON is malformed: it begins with a byte order mark (byte 0)"
    said = str(error)
    if _TRUNCATED in said and _is_complete(text):
        return r"JSON is malformed: a \u escape is only half of a surrogate pair"
    if (place := _PLACE.search(said)) and (word := _WORD.match(text, _start(text, int(place[1])))):
        return f"JSON is malformed: {word[0].decode()} is not JSON (byte {word.start()})"
    return said


def _is_complete(text: bytes) -> bool:
    """Python's reader accepts half a surrogate pair, and otherwise only whole texts."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _start(text: bytes, place: int) -> int:
    """The decoder has already read the sign."""
    return place - 1 if place and text[place - 1 : place] == b"-" else place
