"""What is asked of the C library, where it is glibc."""

from __future__ import annotations

import platform

import pytest

from fairlead_hub.io import memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="not glibc: nothing is changed there")
def test_glibc_takes_both() -> None:
    """The thresholds are accepted, and giving back pages works more than once."""
    assert memory.keep_small()
    held = [bytearray(200_000) for _ in range(200)]
    held.clear()
    memory.give_back()
    assert memory.give_back() in (True, False)
