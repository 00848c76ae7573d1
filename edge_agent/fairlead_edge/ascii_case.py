"""Names in any case: sources, modules, system properties.  Only the letters A to Z have a case here.

One rule for all who compare: what a pattern takes for ``/messages``, the rule that guards ``/messages`` takes for it.
Python's own differ: ``re.IGNORECASE`` takes U+017F for an s, and ``str.lower`` takes U+212A for a k.
"""

from __future__ import annotations

import string
from typing import Final

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def folded(name: str) -> str:
    """The same for all spellings of a name."""
    return name.lower() if name.isascii() else name.translate(_LOWER)


def same(one: str, other: str) -> bool:
    """Are these spellings of one name?"""
    return one == other or folded(one) == folded(other)
