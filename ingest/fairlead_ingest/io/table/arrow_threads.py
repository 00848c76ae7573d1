"""Makes the process wait at exit until pyarrow's threads have released their Python objects.

pyarrow reads files in its own threads. A thread that releases a Python object after the interpreter has ended aborts
the process (exit code 134), although all work is done. So each Python file that pyarrow reads, and each part read from
it, is registered here.
"""

from __future__ import annotations

import atexit
import gc
import os
import threading
import time
import weakref
from typing import Any, Final, TypeVar

import pyarrow as pa

END_SECONDS: Final = 15.0
"""The longest wait at exit; a read in progress, a request with its retries, ends within this time."""
PAUSE_SECONDS: Final = 0.002
PRUNED_AT: Final = 1024
T = TypeVar("T")


class _Held:
    """Weak references without callbacks, so that no Python code runs in the thread that releases an object."""

    def __init__(self) -> None:
        self._known: list[weakref.ref[Any]] = []
        self._prune_at = PRUNED_AT
        self._lock = threading.Lock()

    def add(self, thing: Any) -> None:
        with self._lock:
            self._known.append(weakref.ref(thing))
            if len(self._known) >= self._prune_at:
                self._known = [each for each in self._known if each() is not None]
                self._prune_at = max(PRUNED_AT, 2 * len(self._known))

    def wait(self) -> None:
        """Wait until all objects are gone, with a limit, as the program itself may hold some until its end."""
        gc.collect()
        until = time.monotonic() + END_SECONDS
        while any(each() is not None for each in self._known) and time.monotonic() < until:
            time.sleep(PAUSE_SECONDS)

    def forget(self) -> None:
        """Forget everything; called in a forked process, as the threads belong to the parent."""
        self._known = []
        self._lock = threading.Lock()


_held = _Held()
atexit.register(_held.wait)
os.register_at_fork(after_in_child=_held.forget)


def held(thing: T) -> T:
    """Register a Python file or a view of bytes that is passed to pyarrow; returns it."""
    _held.add(thing)
    return thing


def reader(content: bytes | pa.Buffer) -> pa.BufferReader:
    """A file in memory for pyarrow to read."""
    return pa.BufferReader(held(memoryview(content)))
