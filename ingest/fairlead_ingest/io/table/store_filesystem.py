"""A table's files in a store, as pyarrow reads them: in threads of its own, which must be done when the process ends.

    dataset ─▶ threads of pyarrow ─▶ RangedFile (Python) ─▶ obstore

A thread of pyarrow that still holds a Python object when the interpreter is gone aborts the process (exit code 134),
after all was read and said.  So what such threads hold (a file, what was read of it) is noted, and the end of the
process waits until they have let go of it.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import time
import weakref
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pa_fs

from fairlead_ingest.io.table.ranged import RangedFile
from fairlead_ingest.table.store_path import Storage, StorePath

END_SECONDS: Final = 15.0
"""A read that is under way when the process ends takes no longer: a request and its tries."""
PAUSE_SECONDS: Final = 0.002
PRUNED_AT: Final = 1024


def below(place: StorePath) -> pa_fs.FileSystem:
    """Of all that lies below ``place``, to read."""
    return _below(place, place.storage)


@lru_cache(maxsize=128)
def _below(place: StorePath, storage: Storage) -> pa_fs.FileSystem:
    """Kept, so that no thread is the last to hold one; places are equal whatever their storage."""
    return pa_fs.PyFileSystem(_Below(place))


class _Held:
    """What threads of pyarrow may hold; each is forgotten when it is gone, without a line of Python in that thread."""

    def __init__(self) -> None:
        self._known: list[weakref.ref[Any]] = []
        self._prune_at = PRUNED_AT

    def add(self, thing: Any) -> None:
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
        self._known = []


_held = _Held()
atexit.register(_held.wait)
# The threads are the parent's.
os.register_at_fork(after_in_child=_held.forget)


class _File(RangedFile):
    """Noted, and so is each part that is read."""

    def __init__(self, path: StorePath) -> None:
        super().__init__(path)
        _held.add(self)

    def read_buffer(self, size: int = -1) -> memoryview:
        """What pyarrow calls instead of ``read`` where there is one."""
        part = memoryview(self.read(size))
        _held.add(part)
        return part


class _Below(pa_fs.FileSystemHandler):  # type: ignore[misc]
    """Files are opened by their names, and nothing else is asked of it."""

    def __init__(self, place: StorePath) -> None:
        self._place = place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Below) and other._place == self._place

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        return "fairlead-store"

    def normalize_path(self, path: str) -> str:
        return path

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(_File(self._place / path), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)

    def get_file_info(self, paths: list[str]) -> list[pa_fs.FileInfo]:
        return [pa_fs.FileInfo(path, pa_fs.FileType.File) for path in paths]

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise io.UnsupportedOperation(f"{self._place}: read only")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refused
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refused
