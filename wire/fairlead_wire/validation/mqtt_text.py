"""Which text MQTT can carry (MQTT 5, section 1.5.4): what the entrances of messages refuse, and what is written for it.

U+0000, half a surrogate pair        forbidden: whoever reads it closes the connection
control and non-characters, U+FEFF   discouraged: some clients close the connection (U+FEFF: paho for Python)
more than 65,535 bytes of UTF-8      has no place in a packet
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

TEXT_BYTES_MAX: Final = 65_535
REPLACEMENT: Final = "\ufffd"
NAME_CHARS_SHOWN: Final = 80
_FORBIDDEN: Final = re.compile("[\0\ud800-\udfff]")
_PLANES: Final = "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
_UNSAFE: Final = re.compile(f"[\0-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufeff{_PLANES}]")


def is_forbidden(text: str) -> bool:
    """Does it hold what no MQTT packet may hold?"""
    return _FORBIDDEN.search(text) is not None


def safe(text: str) -> str:
    """The same with U+FFFD in place of each character that is forbidden or discouraged."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(REPLACEMENT, text)


def wrong_in(properties: Mapping[str, str | None], system_properties: Mapping[str, str | None]) -> str:
    """Why a message with these properties cannot be taken; "": it can."""
    for what, given in (("properties", properties), ("systemProperties", system_properties)):
        for name, value in given.items():
            if is_forbidden(name) or (value is not None and is_forbidden(value)):
                shown = name[:NAME_CHARS_SHOWN]
                return f"{what}: {shown!r} holds U+0000, which no subscriber over MQTT can be sent: leave it out"
    return ""
