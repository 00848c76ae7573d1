"""Asks the kernel whether its clock is synchronised; needs no right and no other program."""

from __future__ import annotations

import ctypes
from typing import Final

_TIMEX_BYTES: Final = 512
"""More than ``struct timex`` has anywhere; all zeros reads and changes nothing."""
_TIME_ERROR: Final = 5
"""What ``adjtimex`` returns when the clock is not synchronised."""


def synchronised() -> bool | None:
    """None where the system cannot be asked."""
    try:
        answer = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if answer < 0 else answer != _TIME_ERROR
