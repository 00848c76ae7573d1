"""What is asked of the C library, and what happens where there is none."""

import subprocess
import sys

import pytest

from fairlead_hub.io import memory


def test_where_there_is_no_glibc_nothing_is_changed(monkeypatch):
    """Another C library has neither call: the hub runs all the same."""
    monkeypatch.setattr(memory, "_libc", object())
    assert memory.keep_small() is False
    assert memory.give_back() is False


@pytest.mark.process
@pytest.mark.skipif(not hasattr(memory._libc, "mallopt"), reason="no glibc here")
def test_with_glibc_the_threshold_stays_and_pages_go_back():
    """In a process of its own, because the setting is for good: freed buffers leave the heap."""
    program = """
import gc
from fairlead_hub.io import memory
assert memory.keep_small()
def resident():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])
def storm():
    held = [bytearray(b"x" * 256 * 1024) for _ in range(200)]
    return resident()
storm()
full = storm()
gc.collect()
memory.give_back()
assert resident() < full - 40_000, (full, resident())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
