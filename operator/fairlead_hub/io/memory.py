"""Keeps the memory of thousands of TLS connections small, by preventing glibc from placing read buffers on the heap.

uvloop gives every TLS connection a read buffer of 256 KiB, of which a quiet node touches a few pages.  glibc maps such
buffers separately, but stops doing so once one of them was freed; from then on they lie on the heap, on pages that are
already in use, and count in full.  A fixed threshold keeps them separate.
"""

from __future__ import annotations

import ctypes

_libc = ctypes.CDLL(None)
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_THRESHOLD_BYTES = 128 * 1024


def keep_small() -> bool:
    """Call before the first connection.  Returns False without glibc; nothing is changed then."""
    mallopt = getattr(_libc, "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES)) and bool(mallopt(_M_ARENA_MAX, 1))


def give_back() -> bool:
    """Return unused memory to the system, after many openings.

    Takes a few milliseconds; returns False without glibc.
    """
    trim = getattr(_libc, "malloc_trim", None)
    return trim is not None and bool(trim(0))
