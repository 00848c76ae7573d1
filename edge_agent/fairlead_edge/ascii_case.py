"""Case-insensitive names (sources, modules, system properties), where only the letters A to Z have a case.

All comparisons share one rule, so that whatever a pattern matches as ``/messages``, the access check for ``/messages``
matches, too.  Python's rules differ among themselves: ``re.IGNORECASE`` takes U+017F for an s, and ``str.lower`` takes
U+212A for a k.
"""

from __future__ import annotations

import string
from typing import Final

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def folded(name: str) -> str:
    """The lower-case form, which is the same for all spellings of a name."""
    return name.lower() if name.isascii() else name.translate(_LOWER)


def same(one: str, other: str) -> bool:
    """Whether these are spellings of one name."""
    return one == other or folded(one) == folded(other)
