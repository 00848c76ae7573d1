"""Leaves out rows that another engine has marked as deleted in separate files (merge on read).

Such engines write the positions of deleted rows instead of rewriting the data file, and Arrow's readers ignore them. So
when a reader opens a data file with deleted rows, it is copied without them into an already unlinked temporary file;
other files are opened directly.

    memory   ``ROWS_AT_ONCE`` rows of a file, a page of each column, and the positions of its deleted rows
    disk     copies of the files that a reader has open, about four

Equality deletes and deletion vectors (format version 3) are refused, but only when a file is opened, so a job that only
appends is not affected.
"""

from __future__ import annotations

import tempfile
import threading
from collections import deque
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.table import Table

from fairlead_ingest import errors
from fairlead_ingest.io.table.iceberg import file_io, iceberg_table
from fairlead_ingest.table.store_path import Place

ROWS_AT_ONCE: Final = 32_768
# Without this, a whole row group is read at once: 89 MB of memory for a file of 57 MiB, instead of 17 MB.
_BUFFER_BYTES: Final = 1_048_576
_NAMES: Final = {DataFileContent.EQUALITY_DELETES: "by value (equality deletes)"}

_kept: Final = deque[Any](maxlen=16)
"""Keeps handlers alive, so that no thread of Arrow releases the last reference at exit (``arrow_threads``)."""


def left_out(place: Place, table: Table, below: fs.FileSystem) -> fs.FileSystem:
    """Wrap ``below``, the file system of ``place``, to leave out the deleted rows of the open version."""
    found = _LeftOut(place, table, below)
    _kept.append(found)
    return fs.PyFileSystem(found)


def _read_only(*_: Any) -> Any:
    raise OSError("this file system is read-only")


class _LeftOut(fs.FileSystemHandler):  # type: ignore[misc]
    def __init__(self, place: Place, table: Table, below: fs.FileSystem) -> None:
        self._place, self._table, self._below = place, table, below
        self._lock = threading.Lock()
        self._known: dict[str, list[DataFile]] | None = None

    def open_input_file(self, path: str) -> pa.NativeFile:
        gone = self._deleted(path)
        if not len(gone):
            return self._below.open_input_file(path)
        with self._below.open_input_file(path) as source:
            return _copied_without(source, gone)

    open_input_stream = open_input_file

    def _deleted(self, path: str) -> npt.NDArray[np.int64]:
        """The positions of deleted rows. A delete file may concern any file of its partition, which it names inside."""
        location, found = f"{file_io.plain(file_io.location_of(self._place))}/{path}", [np.empty(0, np.int64)]
        for mark in self._marks().get(path, ()):
            with self._below.open_input_file(file_io.relative(self._place, mark.file_path)) as source:
                found.append(_positions(source, location))
        return np.unique(np.concatenate(found))

    def _marks(self) -> dict[str, list[DataFile]]:
        """By path of a data file, the delete files that may concern it. Raises ``Stop``."""
        with self._lock:
            if self._known is None:
                _refuse_others(self._place, self._table)
                self._known = {
                    file_io.relative(self._place, task.file.file_path): list(task.delete_files)
                    for task in self._table.scan().plan_files()
                }
            return self._known

    def get_type_name(self) -> str:
        return "fairlead"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        found: list[fs.FileInfo] = self._below.get_file_info(paths)
        return found

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        found: list[fs.FileInfo] = self._below.get_file_info(selector)
        return found

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _read_only
    move = copy_file = open_output_stream = open_append_stream = _read_only


def _refuse_others(place: Place, table: Table) -> None:
    for manifest in iceberg_table.manifests(table):
        if manifest.content != ManifestContent.DELETES:
            continue
        for entry in iceberg_table.manifest_entries(table, manifest):
            file = entry.data_file
            if file.content == DataFileContent.POSITION_DELETES and file.file_format == FileFormat.PARQUET:
                continue
            how = _NAMES.get(file.content, f"in a file of format {file.file_format.value}")
            raise errors.Stop(
                errors.TABLE_UNFIT,
                f"{place}: another engine has marked rows as deleted {how}, which is not supported here; let that"
                " engine rewrite those files (rewrite_data_files)",
            )


def _positions(source: pa.NativeFile, location: str) -> npt.NDArray[np.int64]:
    """Positions of deleted rows of the file at ``location``. Single-threaded, as Arrow's threads may wait for us."""
    found = [np.empty(0, np.int64)]
    with pq.ParquetFile(source, pre_buffer=False, buffer_size=_BUFFER_BYTES) as file:
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=["file_path", "pos"], use_threads=False):
            wanted = np.array([file_io.plain(each) for each in batch["file_path"].to_pylist()]) == file_io.plain(
                location
            )
            found.append(batch["pos"].to_numpy(zero_copy_only=False)[wanted].astype(np.int64))
    return np.concatenate(found)


def _copied_without(source: pa.NativeFile, deleted: npt.NDArray[np.int64]) -> pa.NativeFile:
    with tempfile.NamedTemporaryFile(prefix="fairlead-", suffix=".parquet") as copy:
        with (
            pq.ParquetFile(source, pre_buffer=False, buffer_size=_BUFFER_BYTES) as file,
            pq.ParquetWriter(copy.name, file.schema_arrow, compression="snappy") as writer,
        ):
            first = 0
            for batch in file.iter_batches(ROWS_AT_ONCE, use_threads=False):
                low, high = np.searchsorted(deleted, [first, first + batch.num_rows])
                kept = np.ones(batch.num_rows, bool)
                kept[deleted[low:high] - first] = False
                writer.write_batch(batch.filter(pa.array(kept)))
                first += batch.num_rows
        return pa.OSFile(copy.name)
