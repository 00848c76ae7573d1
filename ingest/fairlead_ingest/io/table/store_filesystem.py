"""Reads a table's files in a store: Parquet files in ranges, and datasets of such files for pyarrow.

    dataset ─▶ threads of pyarrow ─▶ RangedFile (Python) ─▶ obstore

Only the footer and the requested parts of a file are read: searching a file of 100 MB for one message reads the id
column, unless the file's statistics rule it out. delta-rs' own files are not used, because nothing waits for them at
exit (``arrow_threads``), and they keep the credentials that the table was opened with.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from fairlead_ingest.io.table import object_store
from fairlead_ingest.io.table.arrow_threads import held
from fairlead_ingest.table.store_path import Storage, StorePath

TAIL_BYTES: Final = 64 * 1024
"""Size of the first request: all of a small file, the footer of a large one."""
Equal = tuple[str, str, Any]
_COMPARE: Final = {"=": pc.equal, ">=": pc.greater_equal, "<=": pc.less_equal}


class RangedFile(io.RawIOBase):
    """A seekable object. Reading raises ``Wait``, ``Stop``."""

    def __init__(self, path: StorePath) -> None:
        super().__init__()
        self._path = path
        self._tail, self._size = object_store.read_tail(path, TAIL_BYTES)
        self._at = 0
        held(self)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._at + size)
        begin, self._at = self._at, max(self._at, end)
        if begin >= end:
            return b""
        tail_begins = self._size - len(self._tail)
        if begin >= tail_begins:
            return self._tail[begin - tail_begins : end - tail_begins]
        return object_store.read_range(self._path, begin, end)

    def read_buffer(self, size: int = -1) -> memoryview:
        """Called by pyarrow instead of ``read``."""
        return held(memoryview(self.read(size)))


def read_footer(path: StorePath) -> pq.FileMetaData:
    """The file's Parquet metadata. Raises ``Wait``, ``Stop``."""
    return pq.ParquetFile(pa.PythonFile(RangedFile(path), mode="r")).metadata


def matching(path: StorePath, columns: Sequence[str], filters: Sequence[Equal]) -> pa.Table:
    """The rows that match each filter, ``(column, "=" or ">=" or "<=", value)``. Raises ``Wait``, ``Stop``."""
    file = pq.ParquetFile(pa.PythonFile(RangedFile(path), mode="r"), pre_buffer=True)
    schema = file.schema_arrow
    found = [schema.empty_table().select(list(columns))]
    asked = [name for name, _, _ in filters]
    for group in range(file.metadata.num_row_groups):
        if not _may_hold(file.metadata.row_group(group), filters):
            continue
        keys = file.read_row_group(group, columns=asked)
        name, how, value = filters[0]
        holds = _COMPARE[how](keys[name], value)
        for name, how, value in filters[1:]:
            holds = pc.and_(holds, _COMPARE[how](keys[name], value))
        if pc.any(holds).as_py():
            found.append(file.read_row_group(group, columns=list(columns)).filter(holds))
    return pa.concat_tables(found)


def _may_hold(group: pq.RowGroupMetaData, filters: Sequence[Equal]) -> bool:
    """False if the file's statistics rule it out."""
    by_name = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
    for name, how, value in filters:
        statistics = by_name[name].statistics if name in by_name else None
        if statistics is None or not statistics.has_min_max:
            continue
        if (how != ">=" and value < statistics.min) or (how != "<=" and value > statistics.max):
            return False
    return True


def below(place: StorePath) -> pa_fs.FileSystem:
    """A read-only file system of everything below ``place``."""
    return _below(place, place.storage)


@lru_cache(maxsize=128)
def _below(place: StorePath, storage: Storage) -> pa_fs.FileSystem:
    """Cached, so that no thread releases the last reference. ``storage`` is part of the key, as places ignore it."""
    return pa_fs.PyFileSystem(_Below(place))


class _Below(pa_fs.FileSystemHandler):  # type: ignore[misc]
    """Only opens files by name."""

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
