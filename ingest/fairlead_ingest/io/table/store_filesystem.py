"""A table's files in a store, as a dataset of pyarrow reads them.

    dataset ─▶ threads of pyarrow ─▶ RangedFile (Python) ─▶ obstore

Not through delta-rs' files: nothing waits for those when the process ends (``arrow_threads``), and they go on with the
credentials that the table was opened with.
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs

from fairlead_ingest.io.table.ranged import RangedFile
from fairlead_ingest.table.store_path import Storage, StorePath


def below(place: StorePath) -> pa_fs.FileSystem:
    """Of all that lies below ``place``, to read."""
    return _below(place, place.storage)


@lru_cache(maxsize=128)
def _below(place: StorePath, storage: Storage) -> pa_fs.FileSystem:
    """Kept, so that no thread is the last to hold one; places are equal whatever their storage."""
    return pa_fs.PyFileSystem(_Below(place))


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
        return pa.PythonFile(RangedFile(self._place / path), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)

    def get_file_info(self, paths: list[str]) -> list[pa_fs.FileInfo]:
        return [pa_fs.FileInfo(path, pa_fs.FileType.File) for path in paths]

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise io.UnsupportedOperation(f"{self._place}: read only")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refused
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refused
