"""Text that MQTT cannot carry (MQTT 5, section 1.5.4): what is refused when published, and what is replaced.

U+0000, lone surrogates              forbidden: the receiver closes the connection
control and non-characters, U+FEFF   discouraged: some clients close the connection (U+FEFF: paho for Python)
more than 65,535 bytes of UTF-8      does not fit in a packet
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
    """True if the text has characters that no MQTT packet may contain."""
    return _FORBIDDEN.search(text) is not None


def safe(text: str) -> str:
    """Replace each forbidden or discouraged character by U+FFFD."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(REPLACEMENT, text)


def wrong_in(properties: Mapping[str, str | None], system_properties: Mapping[str, str | None]) -> str:
    """Why a message with these properties is refused; "" if it is not."""
    for what, given in (("properties", properties), ("systemProperties", system_properties)):
        for name, value in given.items():
            if is_forbidden(name) or (value is not None and is_forbidden(value)):
                shown = name[:NAME_CHARS_SHOWN]
                return f"{what}: {shown!r} contains U+0000, which cannot be sent to MQTT subscribers: leave it out"
    return ""
