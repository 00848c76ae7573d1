"""A Parquet file in a store, read in ranges: its footer, then what of it is asked for, and no more.

Looking for one message in a file of 100 MB costs the column of ids, where the file's own statistics cannot rule it out.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fairlead_ingest.io.table import object_store
from fairlead_ingest.io.table.arrow_threads import held
from fairlead_ingest.table.store_path import StorePath

TAIL_BYTES: Final = 64 * 1024
"""Of a first request: the whole of a small file, the footer of a large one."""
Equal = tuple[str, str, Any]
_COMPARE: Final = {"=": pc.equal, ">=": pc.greater_equal, "<=": pc.less_equal}


class RangedFile(io.RawIOBase):
    """An object to read and seek in.  Reading raises ``Wait``, ``Stop``."""

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
        """What pyarrow calls instead of ``read`` where there is one."""
        return held(memoryview(self.read(size)))


def read_footer(path: StorePath) -> pq.FileMetaData:
    """What the file says about itself.  Raises ``Wait``, ``Stop``."""
    return pq.ParquetFile(pa.PythonFile(RangedFile(path), mode="r")).metadata


def matching(path: StorePath, columns: Sequence[str], filters: Sequence[Equal]) -> pa.Table:
    """The rows for which each filter, ``(column, "=" or ">=" or "<=", value)``, holds.  Raises ``Wait``, ``Stop``."""
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
    """False where the file's statistics rule it out."""
    by_name = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
    for name, how, value in filters:
        statistics = by_name[name].statistics if name in by_name else None
        if statistics is None or not statistics.has_min_max:
            continue
        if (how != ">=" and value < statistics.min) or (how != "<=" and value > statistics.max):
            return False
    return True
