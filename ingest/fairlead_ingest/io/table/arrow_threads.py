"""What threads of pyarrow hold of Python's: the end of the process waits until they have let go of it.

pyarrow reads files in threads of its own. One that lets go of a Python object when the interpreter is gone aborts the
process (exit code 134), after all was read and said. So a Python file that pyarrow reads, and each part that is read of
it, is noted here.
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
"""A read that is under way when the process ends takes no longer: a request and its tries."""
PAUSE_SECONDS: Final = 0.002
PRUNED_AT: Final = 1024
T = TypeVar("T")


class _Held:
    """Each is forgotten when it is gone, without a line of Python in the thread that was the last to hold it."""

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
        """Until all is gone; not for ever, for the program itself may hold some to its end."""
        gc.collect()
        until = time.monotonic() + END_SECONDS
        while any(each() is not None for each in self._known) and time.monotonic() < until:
            time.sleep(PAUSE_SECONDS)

    def forget(self) -> None:
        """Also in a process that was forked: the threads are the parent's."""
        self._known = []
        self._lock = threading.Lock()


_held = _Held()
atexit.register(_held.wait)
os.register_at_fork(after_in_child=_held.forget)


def held(thing: T) -> T:
    """``thing``, which pyarrow is given: a Python file, a view of bytes."""
    _held.add(thing)
    return thing


def reader(content: bytes | pa.Buffer) -> pa.BufferReader:
    """A file that is in memory, for pyarrow to read."""
    return pa.BufferReader(held(memoryview(content)))
