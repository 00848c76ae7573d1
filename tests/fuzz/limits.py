"""Limits for one input in a process of the search: processor time and memory.

Processor time, not wall time, so that a busy machine causes no findings.  What Python cannot interrupt (C that never
returns, a crash) is noticed by the parent process (``workers``).
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.fuzz.target import Finding, Target, attempt

SECONDS_MAX = 2.0
"""Of the processor, for at most ``INPUT_BYTES_MAX`` bytes, under a trace: what is quadratic takes minutes for them."""
MEMORY_BYTES_MAX = 512 * 1024 * 1024
"""Beyond what the process has when it begins."""
GROWTH_BYTES_MAX = 128 * 1024 * 1024
"""By which one input may raise the most that the process ever had."""


class TooSlow(BaseException):
    """Not an ``Exception``, so that no parser catches it."""


def begin() -> None:
    """Limit memory from now on, and raise ``TooSlow`` by a timer."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    now = pages * resource.getpagesize()
    _, highest = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY_BYTES_MAX, highest))
    signal.signal(signal.SIGVTALRM, _expired)


def _expired(signum: int, frame: FrameType | None) -> None:
    raise TooSlow(f"more than {SECONDS_MAX:g} s of the processor")


@contextmanager
def _timer(seconds: float) -> Iterator[None]:
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def guarded(note: Callable[[Target, bytes], None]) -> Callable[[Target, bytes], Finding | None]:
    """``attempt`` within the limits; ``note`` receives each input before it is tried."""

    def attempted(target: Target, content: bytes) -> Finding | None:
        note(target, content)
        before = _peak_bytes()
        try:
            with _timer(SECONDS_MAX):
                found = attempt(target, content)
        except TooSlow:  # between the parser's end and the timer's
            found = None
        grown = _peak_bytes() - before
        if found is None and grown > GROWTH_BYTES_MAX:
            return Finding("Memory", target.name, f"{len(content)} bytes took {grown >> 20} MiB of memory")
        return found

    return attempted


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
